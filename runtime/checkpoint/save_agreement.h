// Before a save, all ranks agree which rank writes which part of the state. They need to, because no rank
// knows what the others have.
//
// Each rank sends a digest, that is, a hash, of the names, types and shapes in its state. If the digest of
// any rank has changed since the previous save, the ranks exchange the names. If several ranks have the same
// digest, only one of them sends its names.
//
// Some data must be equal on all ranks that have the same names: all shared values, and the shared tensors.
// So at each save, these ranks also compare digests of all shared values and of some elements of the shared
// tensors.
//
// Use SaveAgreement on the training thread.
#pragma once

#include <chrono>
#include <limits>
#include <muster/checkpoint/state_part.h>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/checkpoint/meeting.h"

namespace muster {

// Invariants:
// - `share_` is the part that this rank writes, if the digest of the state is `share_->structure`. Before the
//   first agreement and after an agreement that failed, it is empty. Then the ranks exchange the names of
//   their tensors and values again at the next save.
// - On rank 0, `structures_` has the digests of all ranks. They are from the agreement that made `share_`.
// - `save_count_` is the same on all ranks, so that all ranks compare the same elements of the tensors.
class SaveAgreement {
 public:
  // The ranks that divide the state among them: `count` ranks, beginning with rank `first`. Together they
  // write all of their tensors, even if a rank that is not among them writes the same tensors.
  struct Writers {
    int first = 0;
    int count = std::numeric_limits<int>::max();
  };
  SaveAgreement(bool check_replicas, std::chrono::milliseconds timeout, Writers writers)
      : check_replicas_(check_replicas), timeout_(timeout), writers_(writers) {}

  // Each rank always writes the tensors and values that are its own. A Share has the names of the other
  // tensors and values that this rank writes.
  struct Share {
    std::set<std::string> tensors;
    std::set<std::string> values;
    std::string structure;  // the digest of the names, types and shapes that were divided
  };
  // Every rank calls agree() in the same meeting. The ranks must not use the meeting for anything else until
  // agree() has returned. `state` is this rank's state, or the error why it has none. If agree() fails, it
  // returns the same error on all ranks:
  // - kUnavailable: all ranks can try again;
  // - kCorrupt: the state must not be committed, because something that must be equal on all ranks is not.
  // A rank that gets no answer from rank 0 returns kTimedOut instead.
  Expected<Share> agree(Meeting& meeting, const Expected<SavedState>& state);

 private:
  Expected<std::string> lead(Meeting& meeting, const Expected<SavedState>& state);
  Expected<std::string> follow(Meeting& meeting, const Expected<SavedState>& state);
  static std::string find_difference(const std::vector<std::string>& lists, std::size_t left,
                                     std::size_t right);
  std::string word_of(const SavedState& state);

  const bool check_replicas_;
  const std::chrono::milliseconds timeout_;
  const Writers writers_;
  std::uint64_t save_count_ = 0;  // each save compares other elements of the tensors
  std::vector<std::string> structures_;
  std::optional<Share> share_;
};

}  // namespace muster
