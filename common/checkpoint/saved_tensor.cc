#include "common/checkpoint/saved_tensor.h"

#include <array>
#include <fmt/ranges.h>
#include <limits>
#include <numeric>
#include <set>

namespace muster {

namespace {

struct DtypeRow {
  std::string_view name;
  unsigned bits;
};
// Indexed by Dtype.
constexpr std::array<DtypeRow, 22> kDtypes = {{
    {"BOOL", 8},    {"U8", 8},      {"I8", 8},      {"U16", 16},        {"I16", 16},        {"U32", 32},
    {"I32", 32},    {"U64", 64},    {"I64", 64},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6},
    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F16", 16},
    {"BF16", 16},   {"F32", 32},    {"F64", 64},    {"C64", 64},
}};
static_assert(kDtypes[static_cast<std::size_t>(Dtype::kC64)].name == "C64");

// Returns the number of bits of a tensor. Returns nothing if an extent is negative, or if there are more than
// `2^63 - 1` bits.
std::optional<std::uint64_t> bits_of(Dtype dtype, const Extents& shape) {
  std::int64_t bits = bits_of(dtype);
  // If an extent is 0, the size is 0. Even then the product of the other extents must not overflow, because
  // torch multiplies them.
  for (const std::int64_t extent : shape) {
    if (extent < 0 || (extent > 0 && __builtin_mul_overflow(bits, extent, &bits))) return std::nullopt;
  }
  return std::ranges::find(shape, 0) == shape.end() ? static_cast<std::uint64_t>(bits) : 0;
}

bool lies_within(const Slice& slice, const Extents& shape) {
  if (slice.offsets.size() != shape.size() || slice.sizes.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (slice.offsets[d] < 0 || slice.sizes[d] < 0 || slice.sizes[d] > shape[d] ||
        slice.offsets[d] > shape[d] - slice.sizes[d])
      return false;
  }
  return true;
}

std::int64_t end_of(const Slice& slice, std::size_t d) {
  return slice.offsets[d] + slice.sizes[d];
}

// Returns the part that two slices of one tensor have in common. Returns nothing if that part has no
// elements.
std::optional<Slice> common_of(const Slice& left, const Slice& right) {
  Slice common;
  for (std::size_t d = 0; d < left.sizes.size(); ++d) {
    const std::int64_t begin = std::max(left.offsets[d], right.offsets[d]);
    const std::int64_t size = std::min(end_of(left, d), end_of(right, d)) - begin;
    if (size <= 0) return std::nullopt;
    common.offsets.push_back(begin);
    common.sizes.push_back(size);
  }
  return common;
}

// Returns a text, for example "[0:50,0:128]". This works for any slice, even for one outside its tensor.
std::string text_of(const Slice& slice) {
  std::string text;
  for (std::size_t d = 0; d < std::min(slice.offsets.size(), slice.sizes.size()); ++d) {
    std::int64_t end = 0;
    if (__builtin_add_overflow(slice.offsets[d], slice.sizes[d], &end))
      end = std::numeric_limits<std::int64_t>::max();
    text += fmt::format("{}{}:{}", d == 0 ? "[" : ",", slice.offsets[d], end);
  }
  return text + (slice.sizes.empty() ? "[]" : "]");
}

// Returns the dimension along which the tensor is split into parts. It takes the dimension in which the parts
// have the most different offsets.
std::size_t dimension_of_cuts(const SavedTensor& tensor) {
  std::size_t chosen = 0;
  std::size_t most = 0;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    std::set<std::int64_t> begins;
    for (const StoredPart& part : tensor.parts) begins.insert(part.slice.offsets[d]);
    if (begins.size() > most) chosen = d;
    most = std::max(most, begins.size());
  }
  return chosen;
}

Status check_overlap(const SavedTensor& tensor) {
  if (tensor.parts.size() < 2) return {};
  const auto overlap = [](const Slice& left, const Slice& right) {
    return failure(ErrorCode::kCorrupt, "its parts {} and {} overlap", text_of(left), text_of(right));
  };
  if (tensor.shape.empty()) return overlap(tensor.parts[0].slice, tensor.parts[1].slice);
  const std::size_t d = dimension_of_cuts(tensor);
  std::vector<const Slice*> sorted;
  for (const StoredPart& part : tensor.parts) sorted.push_back(&part.slice);
  std::ranges::sort(sorted, {}, [d](const Slice* slice) { return slice->offsets[d]; });
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (std::size_t j = i + 1; j < sorted.size() && sorted[j]->offsets[d] < end_of(*sorted[i], d); ++j) {
      if (common_of(*sorted[i], *sorted[j])) return overlap(*sorted[i], *sorted[j]);
    }
  }
  return {};
}

// Returns for each dimension the distance in bits between neighbors along that dimension.
std::vector<std::uint64_t> strides_of(std::uint64_t element_bits, const Extents& sizes) {
  std::vector<std::uint64_t> strides(sizes.size());
  for (std::size_t d = sizes.size(); d-- > 0; element_bits *= static_cast<std::uint64_t>(sizes[d]))
    strides[d] = element_bits;
  return strides;
}

struct BitCopy {
  std::uint64_t part_begin = 0;
  std::uint64_t target_begin = 0;
  std::uint64_t run = 0;
  std::vector<PartCopy::Loop> loops;
};

// Plans how to copy `common`, a slice that lies in both `part` and `wanted`. All numbers are in bits.
BitCopy plan_part(const Slice& part, const Slice& wanted, const Slice& common, std::uint64_t element) {
  BitCopy copy{.part_begin = 0, .target_begin = 0, .run = element, .loops = {}};
  const auto part_strides = strides_of(element, part.sizes);
  const auto target_strides = strides_of(element, wanted.sizes);
  bool dense = true;  // true while the run covers whole rows of part and target
  for (std::size_t d = common.sizes.size(); d-- > 0;) {
    copy.part_begin += part_strides[d] * static_cast<std::uint64_t>(common.offsets[d] - part.offsets[d]);
    copy.target_begin +=
        target_strides[d] * static_cast<std::uint64_t>(common.offsets[d] - wanted.offsets[d]);
    const auto count = static_cast<std::uint64_t>(common.sizes[d]);
    if (dense)
      copy.run *= count;
    else if (count > 1)
      copy.loops.insert(copy.loops.begin(), {count, part_strides[d], target_strides[d]});
    dense = dense && common.sizes[d] == part.sizes[d] && common.sizes[d] == wanted.sizes[d];
  }
  return copy;
}

// Converts a plan from bits to bytes. Returns nothing if a copy would begin or end within a byte.
std::optional<PartCopy> in_bytes(const BitCopy& bits, const StoredPart& part) {
  std::uint64_t odd = bits.part_begin | bits.target_begin | bits.run;
  PartCopy copy{.file = part.file,
                .file_begin = part.offset_bytes + bits.part_begin / 8,
                .target_begin = bits.target_begin / 8,
                .run_bytes = bits.run / 8,
                .loops = {}};
  for (const auto& loop : bits.loops) {
    odd |= loop.file_stride | loop.target_stride;
    copy.loops.push_back({loop.count, loop.file_stride / 8, loop.target_stride / 8});
  }
  return odd % 8 == 0 ? std::optional(std::move(copy)) : std::nullopt;
}

}  // namespace

std::string_view name_of(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)].name;
}

std::optional<Dtype> parse_dtype(std::string_view name) {
  const auto found = std::ranges::find(kDtypes, name, &DtypeRow::name);
  if (found == kDtypes.end()) return std::nullopt;
  return static_cast<Dtype>(found - kDtypes.begin());
}

unsigned bits_of(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)].bits;
}

Slice whole_of(const Extents& shape) {
  return {.offsets = Extents(shape.size(), 0), .sizes = shape};
}

std::optional<std::uint64_t> bytes_of(Dtype dtype, const Extents& shape) {
  const auto bits = bits_of(dtype, shape);
  return bits && *bits % 8 == 0 ? std::optional(*bits / 8) : std::nullopt;
}

Status check_parts(const SavedTensor& tensor) {
  const auto bits = bits_of(tensor.dtype, tensor.shape);
  if (!bits || *bits % 8 != 0)
    return failure(ErrorCode::kCorrupt, "a tensor of {} cannot have the shape [{}]", name_of(tensor.dtype),
                   fmt::join(tensor.shape, ", "));
  std::uint64_t covered = 0;
  for (const StoredPart& part : tensor.parts) {
    if (!lies_within(part.slice, tensor.shape))
      return failure(ErrorCode::kCorrupt, "its part {} is not within the shape [{}]", text_of(part.slice),
                     fmt::join(tensor.shape, ", "));
    const auto part_bits = bits_of(tensor.dtype, part.slice.sizes);
    if (!part_bits || *part_bits % 8 != 0 || (*part_bits == 0 && *bits != 0))
      return failure(ErrorCode::kCorrupt, "its part {} does not fill whole bytes", text_of(part.slice));
    covered += *part_bits;
  }
  // The parts do not overlap. So each byte is counted once, and the sum shows whether some part is missing.
  // The sum cannot overflow, because parts that lie within the tensor and do not overlap are together not
  // larger than the tensor.
  if (*bits != 0) {
    if (Status apart = check_overlap(tensor); !apart) return apart;
  }
  if (tensor.parts.empty() || covered != *bits)
    return failure(ErrorCode::kCorrupt, "its {} parts hold {} bytes of {}", tensor.parts.size(), covered / 8,
                   *bits / 8);
  return {};
}

std::string part_name(std::string_view name, const Extents& shape, const Slice& slice) {
  return slice == whole_of(shape) ? std::string(name) : fmt::format("{}{}", name, text_of(slice));
}

std::uint64_t PartCopy::file_end() const {
  return std::accumulate(
      loops.begin(), loops.end(), file_begin + run_bytes,
      [](std::uint64_t end, const Loop& loop) { return end + (loop.count - 1) * loop.file_stride; });
}

std::uint64_t PartCopy::bytes() const {
  return std::accumulate(loops.begin(), loops.end(), run_bytes,
                         [](std::uint64_t bytes, const Loop& loop) { return bytes * loop.count; });
}

Expected<std::vector<PartCopy>> plan_slice(const SavedTensor& tensor, const Slice& wanted) {
  if (!lies_within(wanted, tensor.shape))
    return failure(ErrorCode::kInvalidArgument, "{} is not within the shape [{}]", text_of(wanted),
                   fmt::join(tensor.shape, ", "));
  std::vector<PartCopy> copies;
  if (std::ranges::find(wanted.sizes, 0) != wanted.sizes.end()) return copies;
  for (const StoredPart& part : tensor.parts) {
    const auto common = common_of(part.slice, wanted);
    if (!common) continue;
    auto copy = in_bytes(plan_part(part.slice, wanted, *common, bits_of(tensor.dtype)), part);
    if (!copy)
      return failure(ErrorCode::kInvalidArgument, "{} splits a byte of {}", text_of(wanted),
                     name_of(tensor.dtype));
    copies.push_back(*std::move(copy));
  }
  return copies;
}

}  // namespace muster
