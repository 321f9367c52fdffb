// Describes a rank's file of a checkpoint before it is written: the header of the file, and the place of each
// tensor after it.
//
// A RankFile has two halves, because two threads use it at the same time. The training thread copies tensors
// from the RankFileSource into the staging memory. The writing thread writes the file from the staging
// memory, as the RankFileLayout describes it. The two halves share no object. Each function says which thread
// calls it.
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

// Says where the bytes of the file come from. Only the training thread uses this half of a RankFile.
//
// Invariants: `head` and the segments, in this order, are the whole file, without gaps. A segment keeps its
// tensor until stage_rank_file() has copied the file. This happens before the next training step.
struct RankFileSource {
  std::string head;  // all bytes before the tensors
  struct Segment {
    at::Tensor tensor;
    std::uint64_t offset = 0;  // in the file
    std::uint64_t size_bytes = 0;
  };
  std::vector<Segment> segments;  // sorted by offset
};

// Describes the file. It refers to no tensor, so the writing thread can own it.
//
// Invariants: `finite` has the tensors that must not have a NaN or an infinity. They are sorted by their
// offsets. `contents` is the part of the manifest that describes this file. It does not have the digests yet.
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

// Plans the file that rank `rank` writes. The file has the part `share` of `state`. If safetensors does not
// have the type of a tensor, returns kInvalidArgument with the tensor's name. Call this function on the
// training thread.
Expected<RankFile> lay_out_rank_file(const SavedState& state, const SaveAgreement::Share& share, int rank);

// Copies the file into `staging`. If `staging` is smaller than the file, it copies one part after the other.
// When it has copied the whole file, or when the writing thread has given up, it releases the tensors and
// returns. It copies the tensors of a GPU on a separate stream, and waits for that stream. Call this function
// on the training thread.
void stage_rank_file(RankFileSource& source, Staging& staging);

// Checks a part of the file. `bytes` is this part, and `offset` is where it begins in the file.
// `layout.finite` has the tensors that must be finite. If one of them has a NaN or an infinity in this part,
// returns kCorrupt with the name of the tensor. Call this function on the writing thread.
Status check_all_finite(const RankFileLayout& layout, std::uint64_t offset, std::span<const std::byte> bytes);

}  // namespace muster
