// Which rank writes what of a state: agreed by all ranks before a save, because none knows what the others
// have.
//
// Each rank says in a digest which tensors and values it has; only where these are not those of the save
// before are names exchanged, once for all ranks that have the same. What must be equal on several ranks is
// compared by digests, among ranks that have the same of it: values each time, tensors a little at a time,
// whole ones and slices apart. For the training thread, while nobody
// else uses the meeting.
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

class SaveAgreement {
 public:
  // Ranks from `first` on, so many, are to write all that they have, whatever the others write.
  struct Writers {
    int first = 0;
    int count = std::numeric_limits<int>::max();
  };
  SaveAgreement(bool check_replicas, std::chrono::milliseconds timeout, Writers writers)
      : check_replicas_(check_replicas), timeout_(timeout), writers_(writers) {}

  // What this rank is to write besides what is its own.
  struct Share {
    std::set<std::string> tensors;
    std::set<std::string> values;
    std::string structure;  // the same digest: the same share of the same tensors
  };
  // Every rank calls it with its state, or with why it has none, in a meeting of its own. All ranks return
  // the same error: kUnavailable: all may try again; kCorrupt: the state may not be committed as it is,
  // because ranks differ in what must be equal. kTimedOut: this rank alone has not heard the others.
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
  std::uint64_t save_count_ = 0;         // moves what is compared of the tensors
  std::vector<std::string> structures_;  // rank 0: of all ranks, at the save before
  std::optional<Share> share_;
};

}  // namespace muster
