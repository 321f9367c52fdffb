// Before a save, all ranks agree which of them writes which part of the state, because no rank knows what the
// others have.
//
// Each rank posts a digest of the names, types and shapes in its state. If any digest has changed since the
// previous save, the ranks exchange their names; of all ranks with the same digest, only one sends them. At
// each save, ranks with the same names also compare digests of what must be equal on them: of all shared
// values, and of some elements of the shared tensors. Use SaveAgreement on the training thread.
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
// - `share_` is what this rank writes of a state whose digest is `share_->structure`. It is none before the
//   first agreement and after a failed one, so that the next save exchanges names again.
// - On rank 0, `structures_` has the digests of all ranks from the agreement that made `share_`.
// - `save_count_` is the same on all ranks, so that all compare the same elements of the tensors.
class SaveAgreement {
 public:
  // The ranks from `first` to `first + count - 1` divide all their tensors among themselves. They write a
  // tensor even if a rank outside writes it too.
  struct Writers {
    int first = 0;
    int count = std::numeric_limits<int>::max();
  };
  SaveAgreement(bool check_replicas, std::chrono::milliseconds timeout, Writers writers)
      : check_replicas_(check_replicas), timeout_(timeout), writers_(writers) {}

  // The names of the tensors and values that this rank writes, in addition to those that are its own.
  struct Share {
    std::set<std::string> tensors;
    std::set<std::string> values;
    std::string structure;  // the digest of the names, types and shapes that were divided
  };
  // Every rank calls it in the same meeting, which nothing else uses meanwhile. `state` is this rank's state,
  // or the reason why it has none. If agree() fails, all ranks return the same error:
  // - kUnavailable: all ranks can try again;
  // - kCorrupt: the state must not be committed, because ranks differ in what must be equal.
  // A rank that does not hear rank 0 returns kTimedOut instead.
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
