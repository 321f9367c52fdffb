// A tensor in a checkpoint: its type, its shape, and its parts, each somewhere in a file; and which bytes of
// the parts make up a slice of it.
//
// Plain values and functions, without files (reader.h) and without LibTorch. Elements are stored as in
// safetensors: little-endian, the last dimension contiguous.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"

namespace muster {

// The element types of safetensors.
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

using Extents = std::vector<std::int64_t>;  // one number for each dimension, as in torch

// A part of a tensor: in dimension d, sizes[d] elements from offsets[d] on.
struct Slice {
  Extents offsets;
  Extents sizes;
  bool operator==(const Slice&) const = default;
};
Slice whole_of(const Extents& shape);

struct StoredPart {
  std::uint32_t file = 0;          // position in the manifest's files
  std::uint64_t offset_bytes = 0;  // where the part's first element lies in the file; the others follow
  Slice slice;                     // the elements of the tensor that it holds
  bool operator==(const StoredPart&) const = default;
};

struct SavedTensor {
  Dtype dtype{};
  Extents shape = {};
  std::vector<StoredPart> parts = {};
  bool operator==(const SavedTensor&) const = default;
};

// Returns the size of a tensor with this shape. Nothing if an extent is negative, the size overflows, or it
// is not a whole number of bytes.
std::optional<std::uint64_t> bytes_of(Dtype dtype, const Extents& shape);

// Returns kCorrupt unless the parts cover the tensor exactly, without gaps or overlap. Only a tensor without
// elements may have parts without elements.
Status check_parts(const SavedTensor& tensor);

// "model.weight", or "model.weight[0:50,0:128]" for a slice: the name of a part in its file.
std::string part_name(std::string_view name, const Extents& shape, const Slice& slice);

// How to copy one part's share of a slice: runs of bytes that are contiguous on both sides, at regular
// strides.
struct PartCopy {
  struct Loop {
    std::uint64_t count;
    std::uint64_t file_stride;
    std::uint64_t target_stride;
  };
  std::uint32_t file = 0;
  std::uint64_t file_begin = 0;    // in the file
  std::uint64_t target_begin = 0;  // in the slice, which has no gaps
  std::uint64_t run_bytes = 0;
  std::vector<Loop> loops;  // outermost first; empty: one run
  std::uint64_t file_end() const;
  std::uint64_t bytes() const;
};

// Finds the bytes of the parts that make up this slice. The parts must cover the tensor. Empty if the slice
// has no elements. kInvalidArgument if the slice is not within the tensor, or splits a byte of a type smaller
// than 8 bits.
Expected<std::vector<PartCopy>> plan_slice(const SavedTensor& tensor, const Slice& wanted);

// Calls run(file_begin, target_begin, bytes) for each run, in the order of the file, until it returns false.
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
