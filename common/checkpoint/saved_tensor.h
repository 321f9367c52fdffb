// A tensor as it lies in a checkpoint: its type, its shape, and the parts that make it up, each somewhere in
// a file; and which bytes of the parts give a slice of it.
//
// Plain values and functions, without files (reader.h) and without LibTorch. Elements lie as in safetensors:
// little-endian, the last dimension the densest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace muster {

// The types of elements that safetensors has.
enum class Dtype : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
};
std::string_view name_of(Dtype dtype);  // "F32", as safetensors writes it
std::optional<Dtype> parse_dtype(std::string_view name);
unsigned bits_of(Dtype dtype);  // of one element: 4, 6, or a multiple of 8

using Extents = std::vector<std::int64_t>;  // one number for each dimension, as torch has them

// Part of a tensor: from offsets[d] on, sizes[d] elements in each dimension.
struct Slice {
  Extents offsets;
  Extents sizes;
  bool operator==(const Slice&) const = default;
};
Slice whole_of(const Extents& shape);

struct StoredPart {
  std::uint32_t file = 0;          // position in the manifest's files
  std::uint64_t offset_bytes = 0;  // in the file, where the part's first element lies; the others follow it
  Slice slice;                     // what of the tensor it is
  bool operator==(const StoredPart&) const = default;
};

struct SavedTensor {
  Dtype dtype{};
  Extents shape = {};
  std::vector<StoredPart> parts = {};
  bool operator==(const SavedTensor&) const = default;
};

// What so many elements take; nothing if that is negative, overflows, or is no whole number of bytes.
std::optional<std::uint64_t> bytes_of(Dtype dtype, const Extents& shape);

// kCorrupt unless the parts cover the tensor exactly: none is missing, none overlaps another. Parts without
// elements are for tensors without elements only.
Status check_parts(const SavedTensor& tensor);

// "model.weight", or "model.weight[0:50,0:128]" for a slice: the name of a part in its file.
std::string part_name(std::string_view name, const Extents& shape, const Slice& slice);

// How one part gives its share of a slice: runs of bytes that lie together in both, at regular distances.
struct PartCopy {
  struct Loop {
    std::uint64_t count;
    std::uint64_t file_stride;
    std::uint64_t target_stride;
  };
  std::uint32_t file = 0;
  std::uint64_t file_begin = 0;    // byte of the file
  std::uint64_t target_begin = 0;  // byte of the slice, which lies without holes
  std::uint64_t run_bytes = 0;
  std::vector<Loop> loops;  // the outermost first; none: one run
  std::uint64_t file_end() const;
  std::uint64_t bytes() const;
};

// Which bytes of which parts make up this slice of the tensor, whose parts cover it; none if it has no
// elements. kInvalidArgument if the slice is not within the tensor, or cuts a byte of a type below 8 bits.
Expected<std::vector<PartCopy>> plan_slice(const SavedTensor& tensor, const Slice& wanted);

// Calls run(file_begin, target_begin, bytes) for each run, in the order of the file. Stops where it returns
// false.
template <class Run>
bool for_each_run(const PartCopy& copy, Run&& run) {
  std::vector<std::uint64_t> at(copy.loops.size(), 0);
  for (std::uint64_t file = copy.file_begin, target = copy.target_begin;;) {
    if (!run(file, target, copy.run_bytes)) return false;
    std::size_t loop = copy.loops.size();
    for (; loop > 0; --loop) {
      const PartCopy::Loop& each = copy.loops[loop - 1];
      file += each.file_stride;
      target += each.target_stride;
      if (++at[loop - 1] < each.count) break;
      file -= each.count * each.file_stride;
      target -= each.count * each.target_stride;
      at[loop - 1] = 0;
    }
    if (loop == 0) return true;
  }
}

}  // namespace muster
