// A tensor in a checkpoint: its type, its shape, and where in the files its parts lie. plan_slice() finds the
// bytes that make up a slice of the tensor.
//
// The functions read no files (reader.h does) and do not use LibTorch. Elements are stored as in safetensors:
// little-endian, the last dimension contiguous.
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
  std::uint64_t offset_bytes = 0;  // where the part begins in the file; it is contiguous
  Slice slice;                     // which elements of the tensor the part holds
  bool operator==(const StoredPart&) const = default;
};

struct SavedTensor {
  Dtype dtype{};
  Extents shape = {};
  std::vector<StoredPart> parts = {};
  bool operator==(const SavedTensor&) const = default;
};

// Returns the size of a tensor of this shape, in bytes. Returns nothing if an extent is negative, if the size
// overflows, or if it is not a whole number of bytes.
std::optional<std::uint64_t> bytes_of(Dtype dtype, const Extents& shape);

// Checks that the parts cover the tensor exactly, without gaps and without overlap. If they do not, returns
// kCorrupt. A part may have no elements only if the tensor has none.
Status check_parts(const SavedTensor& tensor);

// Returns the name of a part in its file. For a whole tensor it is like "model.weight", and for a slice it is
// like "model.weight[0:50,0:128]".
std::string part_name(std::string_view name, const Extents& shape, const Slice& slice);

// A file has one part of a tensor, and a buffer has room for a slice of the tensor. This struct describes how
// the elements that are in both the part and the slice are copied from the file to the buffer. The copy
// consists of runs of bytes. Each run is contiguous in the file and in the buffer. The distances between runs
// are regular.
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

// Returns the copies that fill this slice. There are none if the slice has no elements. The parts must cover
// the tensor. Returns kInvalidArgument if the slice is not within the tensor. Elements of less than 8 bits
// share a byte: the function also returns kInvalidArgument if the slice would split a byte.
Expected<std::vector<PartCopy>> plan_slice(const SavedTensor& tensor, const Slice& wanted);

// Calls run(file_begin, target_begin, bytes) for each run of the copy, in the order of the file. If run()
// returns false, stops.
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
