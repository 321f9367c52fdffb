#include "runtime/data/datasets/npy.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <torch/torch.h>

#include "common/base/text.h"

namespace muster {

namespace {

constexpr std::size_t kMostNpyDimensions = 64;  // the limit of numpy and torch
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;

std::optional<at::ScalarType> dtype_of_descr(std::string_view descr) {
  constexpr std::pair<std::string_view, at::ScalarType> kTypes[] = {
      {"|b1", at::kBool},         {"|u1", at::kByte},          {"|i1", at::kChar},  {"<u2", at::kUInt16},
      {"<i2", at::kShort},        {"<u4", at::kUInt32},        {"<i4", at::kInt},   {"<u8", at::kUInt64},
      {"<i8", at::kLong},         {"<f2", at::kHalf},          {"<f4", at::kFloat}, {"<f8", at::kDouble},
      {"<c8", at::kComplexFloat}, {"<c16", at::kComplexDouble}};
  const auto found = std::ranges::find(kTypes, descr, &std::pair<std::string_view, at::ScalarType>::first);
  if (found == std::end(kTypes)) return std::nullopt;
  return found->second;
}

// `header` is the text of a Python dict. Returns the part of the text that begins with the value of `key`.
std::optional<std::string_view> behind_key(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  header.remove_prefix(at + key.size());
  header.remove_prefix(std::min(header.find_first_not_of(" :"), header.size()));
  return header;
}

// Reads a shape such as "(2, 3)", "(5,)" or "()".
std::optional<std::vector<std::int64_t>> shape_in(std::string_view text) {
  if (!text.starts_with('(') || !text.contains(')')) return std::nullopt;
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  for (std::string_view part : split(text.substr(1, text.find(')') - 1), ',')) {
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    if (part.empty()) continue;
    const auto extent = parse_number<std::int64_t>(part);
    if (!extent || *extent < 0 || *extent > kMostElements / std::max<std::int64_t>(elements, 1))
      return std::nullopt;
    elements *= std::max<std::int64_t>(*extent, 1);
    shape.push_back(*extent);
  }
  if (shape.size() > kMostNpyDimensions) return std::nullopt;
  return shape;
}

std::int64_t elements_of(const NpyHeader& header) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : header.shape) elements *= extent;
  return elements;
}

}  // namespace

Expected<NpyHeader> read_npy_header(std::span<const std::byte> bytes) {
  const auto damaged = failure(ErrorCode::kCorrupt, "its header of a numpy array is damaged");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (bytes.size() < 12 || !text.starts_with("\x93NUMPY")) return damaged;
  // The header's length has two bytes in version 1, and four in later versions.
  const std::size_t length_bytes = bytes[6] == std::byte{1} ? 2 : 4, begin = 8 + length_bytes;
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, length_bytes);
  if (length > bytes.size() - begin) return damaged;
  const std::string_view said = text.substr(begin, length);
  const auto descr = behind_key(said, "'descr'"), order = behind_key(said, "'fortran_order'"),
             shape = behind_key(said, "'shape'");
  if (!descr || !order || !shape) return damaged;
  const auto extents = shape_in(*shape);
  if (!extents) return damaged;
  NpyHeader header{.descr = "structured",
                   .dtype = {},
                   .fortran_order = order->starts_with("True"),
                   .shape = *extents,
                   .data_at = begin + length};
  const std::size_t end = descr->find('\'', 1);
  if (!descr->starts_with('\'') || end == std::string_view::npos) return header;
  header.descr = one_line(std::string(descr->substr(1, std::min<std::size_t>(end - 1, 40))));
  header.dtype = dtype_of_descr(descr->substr(1, end - 1));
  return header;
}

Expected<at::Tensor> tensor_of_npy(std::span<const std::byte> bytes) {
  const auto header = read_npy_header(bytes);
  if (!header) return std::unexpected(header.error());
  if (!header->dtype)
    return failure(ErrorCode::kCorrupt, "its array has the type {}, which cannot be read", header->descr);
  const auto size = static_cast<std::uint64_t>(elements_of(*header)) * c10::elementSize(*header->dtype);
  if (bytes.size() - header->data_at != size)
    return failure(ErrorCode::kCorrupt, "its array has {} bytes, and {} follow its header", size,
                   bytes.size() - header->data_at);
  std::vector<std::int64_t> shape = header->shape;
  if (header->fortran_order) std::ranges::reverse(shape);
  const at::Tensor tensor = at::empty(shape, *header->dtype);
  if (size > 0) std::memcpy(tensor.mutable_data_ptr(), bytes.data() + header->data_at, size);
  // Every bool must be the byte 0 or 1, but the file can contain other bytes.
  if (tensor.scalar_type() == at::kBool) tensor.copy_(tensor.view(at::kByte).ne(0));
  if (!header->fortran_order) return tensor;
  std::vector<std::int64_t> order;
  for (std::int64_t i = tensor.dim(); i > 0; --i) order.push_back(i - 1);
  return tensor.permute(order).contiguous();
}

}  // namespace muster
