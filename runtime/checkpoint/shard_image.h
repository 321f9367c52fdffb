// A rank's file of a checkpoint before it is written: its header, and which tensor lies where behind it.
//
// Refers to tensors until stage_shard() has copied them, which is all that the training thread does for a
// save.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "runtime/checkpoint/staging.h"

namespace muster {

struct ShardImage {
  std::string head;  // all bytes before the tensors; a whole number of pages
  struct Segment {
    std::string name;
    at::Tensor tensor;         // until it has been copied
    std::uint64_t offset = 0;  // in the file
    std::uint64_t size_bytes = 0;
    at::ScalarType type = at::kByte;
    bool finite = false;  // may have no NaN and no infinity
  };
  std::vector<Segment> segments;  // by offset, without holes
  std::uint64_t size_bytes = 0;   // of the file
};

// Copies the file into `staging`, in pieces where that is smaller, until all is there or the taker has given
// up, and lets go of the tensors. Those of a GPU are copied on a stream of their own, which the call waits
// for.
void stage_shard(ShardImage& image, Staging& staging);

// kCorrupt names the first tensor that may have no NaN and no infinity and has one among these bytes, which
// begin at `offset` of the file.
Status check_all_finite(const ShardImage& image, std::uint64_t offset, std::span<const std::byte> bytes);

}  // namespace muster
