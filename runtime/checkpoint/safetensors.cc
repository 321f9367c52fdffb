#include "runtime/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <torch/torch.h>
#include <vector>

#include "common/base/text.h"
#include "common/wire/digest.h"
#include "common/wire/json.h"

namespace muster {

namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kHeaderLimit = 100'000'000;  // the reference implementation's
constexpr std::uint64_t kAlignment = 8;
constexpr std::uint64_t kPageBytes = 4096;
constexpr std::string_view kDigestKey = "xxh3:";

struct TypeName {
  at::ScalarType type;
  std::string_view name;
};
constexpr std::array kTypes = {
    TypeName{at::kBool, "BOOL"},
    TypeName{at::kByte, "U8"},
    TypeName{at::kChar, "I8"},
    TypeName{at::kShort, "I16"},
    TypeName{at::kInt, "I32"},
    TypeName{at::kLong, "I64"},
    TypeName{at::kHalf, "F16"},
    TypeName{at::kBFloat16, "BF16"},
    TypeName{at::kFloat, "F32"},
    TypeName{at::kDouble, "F64"},
    TypeName{at::kFloat8_e4m3fn, "F8_E4M3"},
    TypeName{at::kFloat8_e5m2, "F8_E5M2"},
    TypeName{at::kUInt16, "U16"},
    TypeName{at::kUInt32, "U32"},
    TypeName{at::kUInt64, "U64"},
    TypeName{at::kComplexFloat, "C64"},
};

std::string_view bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

// Large elements first, so that every tensor is aligned to its element.
using FileOrder = std::vector<const std::pair<const std::string, at::Tensor>*>;
FileOrder in_file_order(const Safetensors& content) {
  FileOrder order;
  for (const auto& entry : content.tensors) order.push_back(&entry);
  std::ranges::stable_sort(order, std::greater(),
                           [](const auto* entry) { return entry->second.element_size(); });
  return order;
}

struct TensorEntry {
  std::string name;
  at::ScalarType type;
  std::vector<std::int64_t> shape;
  std::uint64_t begin;
  std::uint64_t end;
};

std::optional<std::uint64_t> size_of(at::ScalarType type, const std::vector<std::int64_t>& shape) {
  // An extent of 0 makes the size 0, but torch multiplies the others all the same.
  std::int64_t bytes = static_cast<std::int64_t>(c10::elementSize(type));
  for (const std::int64_t extent : shape) {
    if (extent < 0 || (extent > 0 && __builtin_mul_overflow(bytes, extent, &bytes))) return std::nullopt;
  }
  return std::ranges::find(shape, 0) == shape.end() ? static_cast<std::uint64_t>(bytes) : 0;
}

template <class Number>
std::vector<Number> whole_numbers(const nlohmann::json& array) {
  std::vector<Number> numbers;
  for (const auto& number : array.get_ref<const nlohmann::json::array_t&>())
    numbers.push_back(whole_number<Number>(number));
  return numbers;
}

Expected<TensorEntry> parse_entry(const std::string& name, const nlohmann::json& value) {
  const auto dtype = value.at("dtype").get<std::string>();
  const auto type = std::ranges::find(kTypes, dtype, &TypeName::name);
  if (type == kTypes.end()) {
    return failure(ErrorCode::kCorrupt, "tensor {} has the unknown type {}", one_line(name), one_line(dtype));
  }
  const auto offsets = whole_numbers<std::uint64_t>(value.at("data_offsets"));
  if (offsets.size() != 2) {
    return failure(ErrorCode::kCorrupt, "tensor {} has {} offsets instead of 2", one_line(name),
                   offsets.size());
  }
  TensorEntry entry{.name = name,
                    .type = type->type,
                    .shape = whole_numbers<std::int64_t>(value.at("shape")),
                    .begin = offsets[0],
                    .end = offsets[1]};
  const auto bytes = size_of(entry.type, entry.shape);
  if (!bytes || entry.end < entry.begin || entry.end - entry.begin != *bytes) {
    return failure(ErrorCode::kCorrupt, "tensor {} has offsets that do not fit its shape", one_line(name));
  }
  return entry;
}

// The entries in the order of their data, which they cover without hole or overlap.
Expected<std::vector<TensorEntry>> parse_entries(const nlohmann::json& header, std::uint64_t data_bytes) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    auto entry = parse_entry(name, value);
    if (!entry) return std::unexpected(entry.error());
    entries.push_back(*std::move(entry));
  }
  std::ranges::sort(entries, {}, [](const TensorEntry& entry) { return std::pair(entry.begin, entry.end); });
  std::uint64_t covered = 0;
  for (const TensorEntry& entry : entries) {
    if (entry.begin != covered) {
      return failure(ErrorCode::kCorrupt, "tensor {} begins at byte {}, not at {}", one_line(entry.name),
                     entry.begin, covered);
    }
    covered = entry.end;
  }
  if (covered != data_bytes)
    return failure(ErrorCode::kCorrupt, "{} bytes of data, {} are described", data_bytes, covered);
  return entries;
}

at::Tensor view_of(const at::Tensor& data, const TensorEntry& entry) {
  const at::Tensor bytes =
      data.slice(0, static_cast<std::int64_t>(entry.begin), static_cast<std::int64_t>(entry.end));
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.const_data_ptr());
  const bool aligned =
      bytes.storage_offset() % static_cast<std::int64_t>(c10::elementSize(entry.type)) == 0 &&
      address % c10::elementSize(entry.type) == 0;
  if (bytes.numel() == 0) return at::empty(entry.shape, entry.type);
  return (aligned ? bytes : bytes.clone()).view(entry.type).view(entry.shape);
}

// Length and header, padded to a multiple of `alignment`.
Expected<std::string> encode_head(const FileOrder& order, const std::map<std::string, std::string>& metadata,
                                  std::uint64_t alignment) {
  nlohmann::json header;
  std::uint64_t offset = 0;
  for (const auto* entry : order) {
    const auto& [name, tensor] = *entry;
    const auto type = std::ranges::find(kTypes, tensor.scalar_type(), &TypeName::type);
    if (type == kTypes.end()) {
      return failure(ErrorCode::kInvalidArgument, "tensor {} has the type {}, which safetensors cannot hold",
                     name, c10::toString(tensor.scalar_type()));
    }
    header[name] = {{"dtype", type->name},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, offset + tensor.nbytes()}}};
    offset += tensor.nbytes();
  }
  header["__metadata__"] = metadata;
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    return failure(ErrorCode::kInvalidArgument, "a name or value is not UTF-8: {}", error.what());
  }
  text.append((alignment - (kLengthBytes + text.size()) % alignment) % alignment, ' ');
  if (text.size() > kHeaderLimit)
    return failure(ErrorCode::kInvalidArgument, "a header of {} bytes is too large", text.size());
  const std::uint64_t header_bytes = text.size();
  return std::string(reinterpret_cast<const char*>(&header_bytes), kLengthBytes) + text;
}

}  // namespace

Status encode_safetensors(const Safetensors& content, const std::function<Status(std::string_view)>& write) {
  const auto order = in_file_order(content);
  std::map<std::string, std::string> metadata = content.metadata;
  for (const auto* entry : order)
    metadata[std::string(kDigestKey) + entry->first] = xxh3_digest(bytes_of(entry->second));
  const auto head = encode_head(order, metadata, kAlignment);
  if (!head) return std::unexpected(head.error());
  if (Status wrote = write(*head); !wrote) return wrote;
  for (const auto* entry : order) {
    if (Status wrote = write(bytes_of(entry->second)); !wrote) return wrote;
  }
  return {};
}

Expected<ShardImage> lay_out_safetensors(const Safetensors& content, const std::set<std::string>& finite) {
  const auto order = in_file_order(content);
  auto head = encode_head(order, content.metadata, kPageBytes);
  if (!head) return std::unexpected(head.error());
  ShardImage image{.head = *std::move(head), .segments = {}, .size_bytes = 0};
  image.size_bytes = image.head.size();
  for (const auto* entry : order) {
    const auto& [name, tensor] = *entry;
    image.segments.push_back({.name = name,
                              .tensor = tensor,
                              .offset = image.size_bytes,
                              .size_bytes = tensor.nbytes(),
                              .type = tensor.scalar_type(),
                              .finite = finite.contains(name)});
    image.size_bytes += tensor.nbytes();
  }
  return image;
}

Expected<Safetensors> parse_safetensors(const at::Tensor& file) {
  const std::string_view all = bytes_of(file);
  std::uint64_t header_bytes = 0;
  if (all.size() < kLengthBytes) return failure(ErrorCode::kCorrupt, "{} bytes are too few", all.size());
  std::memcpy(&header_bytes, all.data(), kLengthBytes);
  if (header_bytes > kHeaderLimit || header_bytes > all.size() - kLengthBytes) {
    return failure(ErrorCode::kCorrupt, "a header of {} bytes in a file of {}", header_bytes, all.size());
  }
  try {
    const auto header = parse_shallow_json(all.substr(kLengthBytes, header_bytes));
    const at::Tensor data = file.slice(0, static_cast<std::int64_t>(kLengthBytes + header_bytes));
    auto entries = parse_entries(header, data.nbytes());
    if (!entries) return std::unexpected(entries.error());
    Safetensors content;
    if (header.contains("__metadata__")) header.at("__metadata__").get_to(content.metadata);
    const bool has_digests = std::ranges::any_of(
        content.metadata, [](const auto& entry) { return entry.first.starts_with(kDigestKey); });
    for (const TensorEntry& entry : *entries) {
      at::Tensor tensor = view_of(data, entry);
      const auto digest = content.metadata.find(std::string(kDigestKey) + entry.name);
      // Where the writer has noted some it has noted all: a name has changed.
      if (has_digests && digest == content.metadata.end())
        return failure(ErrorCode::kCorrupt, "tensor {} has no digest, and others have", one_line(entry.name));
      if (has_digests && digest->second != xxh3_digest(bytes_of(tensor)))
        return failure(ErrorCode::kCorrupt, "the digest of tensor {} does not fit its content",
                       one_line(entry.name));
      content.tensors.emplace(entry.name, std::move(tensor));
    }
    std::erase_if(content.metadata, [](const auto& entry) { return entry.first.starts_with(kDigestKey); });
    return content;
  } catch (const nlohmann::json::exception& error) {
    return failure(ErrorCode::kCorrupt, "its header is not one of safetensors: {}", one_line(error.what()));
  } catch (const c10::Error& error) {
    return failure(ErrorCode::kCorrupt, "torch refuses it: {}", one_line(error.what_without_backtrace()));
  }
}

}  // namespace muster
