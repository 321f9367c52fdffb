#include "common/checkpoint/safetensors_header.h"

#include <bit>
#include <cstring>
#include <tuple>

#include "common/base/text.h"
#include "common/wire/json.h"

namespace muster {

namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::uint64_t kHeaderLimit = 100'000'000;  // the limit of the reference implementation
constexpr std::string_view kMetadata = "__metadata__";

Expected<HeaderTensor> parse_header_tensor(const std::string& name, const nlohmann::json& value) {
  const auto type = value.at("dtype").get<std::string>();
  const auto dtype = parse_dtype(type);
  if (!dtype)
    return failure(ErrorCode::kInvalidArgument, "tensor {} has the unknown type {}", one_line(name),
                   one_line(type));
  HeaderTensor tensor{.name = name, .dtype = *dtype};
  for (const auto& extent : value.at("shape").get_ref<const nlohmann::json::array_t&>())
    tensor.shape.push_back(whole_number<std::int64_t>(extent));
  const auto& offsets = value.at("data_offsets").get_ref<const nlohmann::json::array_t&>();
  if (offsets.size() != 2)
    return failure(ErrorCode::kCorrupt, "tensor {} has {} offsets instead of 2", one_line(name),
                   offsets.size());
  tensor.begin_bytes = whole_number<std::uint64_t>(offsets[0]);
  const auto end = whole_number<std::uint64_t>(offsets[1]);
  const auto bytes = bytes_of(*dtype, tensor.shape);
  if (!bytes || end < tensor.begin_bytes || end - tensor.begin_bytes != *bytes)
    return failure(ErrorCode::kCorrupt, "tensor {} has offsets that do not fit its shape", one_line(name));
  tensor.size_bytes = *bytes;
  return tensor;
}

// Checks that the tensors cover the data, without gaps and without overlap. Then it changes their offsets, so
// that they count from the beginning of the file.
Status place_in_file(std::vector<HeaderTensor>& tensors, std::uint64_t data_begin, std::uint64_t file_bytes) {
  std::ranges::sort(tensors, {}, [](const HeaderTensor& tensor) {
    return std::tie(tensor.begin_bytes, tensor.size_bytes, tensor.name);
  });
  std::uint64_t covered = 0;
  for (HeaderTensor& tensor : tensors) {
    if (tensor.begin_bytes != covered)
      return failure(ErrorCode::kCorrupt, "tensor {} begins at byte {}, not at {}", one_line(tensor.name),
                     tensor.begin_bytes, covered);
    covered += tensor.size_bytes;
    tensor.begin_bytes += data_begin;
  }
  if (covered != file_bytes - data_begin)
    return failure(ErrorCode::kCorrupt, "{} bytes of data, {} are described", file_bytes - data_begin,
                   covered);
  return {};
}

}  // namespace

Expected<FileHead> lay_out(std::vector<HeaderTensor>& tensors,
                           const std::map<std::string, std::string>& metadata, std::uint64_t head_alignment) {
  std::ranges::sort(tensors, [](const HeaderTensor& left, const HeaderTensor& right) {
    const auto left_bits = bits_of(left.dtype);
    const auto right_bits = bits_of(right.dtype);
    return left_bits != right_bits ? left_bits > right_bits : left.name < right.name;
  });
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::uint64_t data_bytes = 0;
  for (HeaderTensor& tensor : tensors) {
    const auto bytes = bytes_of(tensor.dtype, tensor.shape);
    if (!bytes || __builtin_add_overflow(data_bytes, *bytes, &data_bytes))
      return failure(ErrorCode::kInvalidArgument, "tensor {} does not fill whole bytes", tensor.name);
    tensor.size_bytes = *bytes;
    tensor.begin_bytes = data_bytes - *bytes;
    if (tensor.name == kMetadata || header.contains(tensor.name))
      return failure(ErrorCode::kInvalidArgument,
                     "a tensor's name may not be __metadata__, nor occur twice: {0}", tensor.name);
    header[tensor.name] = {{"dtype", name_of(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.begin_bytes, data_bytes}}};
  }
  FileHead head;
  try {
    head.text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    return failure(ErrorCode::kInvalidArgument, "a name or value is not UTF-8: {}", one_line(error.what()));
  }
  const std::uint64_t used = (kHeaderLengthBytes + head.text.size()) % head_alignment;
  head.text.append(used == 0 ? 0 : head_alignment - used, ' ');
  const std::uint64_t length = head.text.size();
  if (length > kHeaderLimit)
    return failure(ErrorCode::kInvalidArgument, "a header of {} bytes is too large", length);
  head.text.insert(0, reinterpret_cast<const char*>(&length), kHeaderLengthBytes);
  for (HeaderTensor& tensor : tensors) tensor.begin_bytes += head.text.size();
  head.file_bytes = head.text.size() + data_bytes;
  return head;
}

Expected<std::uint64_t> header_bytes(std::string_view first_8, std::uint64_t file_bytes) {
  if (file_bytes < kHeaderLengthBytes || first_8.size() < kHeaderLengthBytes)
    return failure(ErrorCode::kCorrupt, "{} bytes are too few for a safetensors file", file_bytes);
  std::uint64_t length = 0;
  std::memcpy(&length, first_8.data(), kHeaderLengthBytes);
  if (length > kHeaderLimit || length > file_bytes - kHeaderLengthBytes)
    return failure(ErrorCode::kCorrupt, "a header of {} bytes in a file of {}", length, file_bytes);
  return length;
}

Expected<SafetensorsHeader> parse_header(std::string_view text, std::uint64_t file_bytes) {
  SafetensorsHeader header;
  try {
    const auto document = parse_shallow_json(text);
    for (const auto& [name, value] : document.get_ref<const nlohmann::json::object_t&>()) {
      if (name == kMetadata) {
        if (!value.is_null()) value.get_to(header.metadata);
        continue;
      }
      auto tensor = parse_header_tensor(name, value);
      if (!tensor) return std::unexpected(tensor.error());
      header.tensors.push_back(*std::move(tensor));
    }
  } catch (const nlohmann::json::exception& error) {
    return failure(ErrorCode::kCorrupt, "not a safetensors header: {}", one_line(error.what()));
  }
  if (Status placed = place_in_file(header.tensors, kHeaderLengthBytes + text.size(), file_bytes); !placed)
    return std::unexpected(placed.error());
  return header;
}

}  // namespace muster
