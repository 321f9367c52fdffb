// A rank's file of a checkpoint before it is written: its header, and which tensor lies where behind it.
//
// Refers to tensors until stage_rank_file() has copied them, which is all that the training thread does for a
// save.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <muster/checkpoint/state_part.h>
#include <span>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/checkpoint/manifest.h"
#include "runtime/checkpoint/save_agreement.h"
#include "runtime/checkpoint/staging.h"

namespace muster {

struct RankFile {
  std::string head;  // all bytes before the tensors
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
  RankContents contents;          // what the manifest will say of it, but for the file's digests
};

// Rank `rank`'s share of a state. kInvalidArgument names a tensor of a type that safetensors has not.
Expected<RankFile> lay_out_rank_file(const SavedState& state, const SaveAgreement::Share& share, int rank);

// Copies the file into `staging`, in pieces where that is smaller, until all is there or the taker has given
// up, and lets go of the tensors. Those of a GPU are copied on a stream of their own, which the call waits
// for.
void stage_rank_file(RankFile& image, Staging& staging);

// kCorrupt names the first tensor that may have no NaN and no infinity and has one among these bytes, which
// begin at `offset` of the file.
Status check_all_finite(const RankFile& image, std::uint64_t offset, std::span<const std::byte> bytes);

}  // namespace muster
