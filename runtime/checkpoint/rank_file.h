// A rank's file of a checkpoint before it is written: its header, and the place of each tensor behind it.
//
// A RankFile has two halves, because two threads use it at the same time. The training thread copies from the
// RankFileSource into the staging memory. The writing thread writes the file from there, as the
// RankFileLayout describes it. The two halves share no object. Each function says which thread calls it.
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

// Says where the bytes of the file come from. Only the training thread has this half.
//
// Invariants: `head` and the segments, in this order, fill the file without gaps. A segment holds its tensor
// until stage_rank_file() has copied the file, which is before the next training step.
struct RankFileSource {
  std::string head;  // all bytes before the tensors
  struct Segment {
    at::Tensor tensor;
    std::uint64_t offset = 0;  // in the file
    std::uint64_t size_bytes = 0;
  };
  std::vector<Segment> segments;  // sorted by offset
};

// A description of the file. It refers to no tensor, so that the writing thread can own it.
//
// Invariants: `finite` has the tensors that must not have a NaN or an infinity, sorted by offset. `contents`
// is what the manifest will say of the file, but has no digests yet.
struct RankFileLayout {
  std::uint64_t size_bytes = 0;  // of the file
  struct Range {
    std::string name;
    std::uint64_t offset = 0;  // in the file
    std::uint64_t size_bytes = 0;
    at::ScalarType type = at::kByte;
  };
  std::vector<Range> finite;
  RankContents contents;
};

struct RankFile {
  RankFileSource source;
  RankFileLayout layout;
};

// Lays out the file of rank `rank`, which writes `share` of `state`. Returns kInvalidArgument, with the
// tensor's name, if safetensors does not have a tensor's type. Call this function on the training thread.
Expected<RankFile> lay_out_rank_file(const SavedState& state, const SaveAgreement::Share& share, int rank);

// Copies the file into `staging`, in several pieces if the file is larger. Returns when the whole file is
// copied or the writing thread has given up, and releases the tensors. Copies tensors of a GPU on a separate
// stream, and waits for that stream. Call this function on the training thread.
void stage_rank_file(RankFileSource& source, Staging& staging);

// Checks `bytes`, which begin at `offset` of the file. Returns kCorrupt, with the tensor's name, if a tensor
// of `layout.finite` has a NaN or an infinity there. Call this function on the writing thread.
Status check_all_finite(const RankFileLayout& layout, std::uint64_t offset, std::span<const std::byte> bytes);

}  // namespace muster
