// A rank's file of a checkpoint before it is written: its header, and the place of each tensor behind it.
//
// A RankFile has two halves, because two threads work on it at once: the training thread copies from the
// RankFileSource into the staging memory, while the writing thread takes from there what the RankFileLayout
// describes. The two have no object in common. Plain functions; each says which thread calls it.
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
// Invariants: `head` and the segments, in this order, fill the file without holes. A segment holds its tensor
// until stage_rank_file() has copied the file, which is before the next step.
struct RankFileSource {
  std::string head;  // all bytes before the tensors
  struct Segment {
    at::Tensor tensor;
    std::uint64_t offset = 0;  // in the file
    std::uint64_t size_bytes = 0;
  };
  std::vector<Segment> segments;  // by offset
};

// A description of the file. It refers to no tensor, so the writing thread may have it to itself.
//
// Invariants: `finite` has the tensors that must not have a NaN or an infinity, by offset. `contents` is what
// the manifest will say of the file; its digests are empty until the file is written.
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

// Lays out the file for rank `rank`'s share of a state. kInvalidArgument names a tensor of a type that
// safetensors does not have. Call this function on the training thread.
Expected<RankFile> lay_out_rank_file(const SavedState& state, const SaveAgreement::Share& share, int rank);

// Copies the file into `staging`, in pieces if the file is larger, until the whole file is copied or the
// taker has given up. Then lets go of the tensors. Copies tensors of a GPU on a stream of their own, and
// waits for that stream. Call this function on the training thread.
void stage_rank_file(RankFileSource& source, Staging& staging);

// Looks at `bytes`, which begin at `offset` of the file. kCorrupt names the first tensor of `finite` that has
// a NaN or an infinity there. Call this function on the writing thread.
Status check_all_finite(const RankFileLayout& layout, std::uint64_t offset, std::span<const std::byte> bytes);

}  // namespace muster
