// All ranks choose a checkpoint and load it together. Rank 0 proposes a checkpoint that it could use. If all
// other ranks can use it, too, all ranks load it. Otherwise rank 0 proposes the next one.
//
// Call restore_newest() on the training thread. Each rank first checks that the checkpoint has everything
// that the rank's state needs. The ranks change their states only after all of them have found everything.
// There is one exception: an object with save() and load() takes its values during the check. Then the ranks
// read the tensors into their states, and verify the bytes while they read. So if bytes turn out to be
// damaged, part of the state has already changed, and another checkpoint must be loaded.
#pragma once

#include <chrono>
#include <muster/checkpoint/train_state.h>
#include <optional>
#include <vector>

#include "common/checkpoint/directory.h"
#include "runtime/checkpoint/loading.h"
#include "runtime/checkpoint/meeting.h"
#include "runtime/checkpoint/memory_tier.h"

namespace muster {

// Says which checkpoints can be chosen, and how one is loaded. Rank 0 chooses a checkpoint, and uses its own
// plan for that. Each rank loads the checkpoint by the `rules` of its own plan.
struct RestorePlan {
  CheckpointDirectory directory;
  // The attempt of this rank. It is empty if the program only reads. Then the restore begins at the newest
  // attempt.
  std::optional<Attempt> attempt;
  // If set, only checkpoints of these attempts can be chosen. Otherwise, the checkpoints of all attempts that
  // led to this one can be chosen.
  std::optional<std::vector<Attempt>> only;
  LoadRules rules = {};
  // Checkpoints in memory. They are used if they are newer than those on the disk. If this is null on one
  // rank, it is null on all ranks.
  MemoryTier* memory = nullptr;
  std::chrono::milliseconds patience = std::chrono::minutes(30);  // how long a rank gets to read a checkpoint
};

struct Restored {
  CheckpointId id;
  bool from_memory = false;
  std::vector<std::string> missing;    // names that this rank asked for and the checkpoint does not have
  std::vector<std::string> left_over;  // names in the checkpoint that this rank did not ask for
};

// Every rank calls it. Returns the checkpoint that was loaded. Returns std::nullopt if the directory has no
// checkpoint that can be chosen. Rank 0 prints which checkpoints were not used, and why. The errors:
// - kFenced: a newer attempt has begun;
// - kInvalidArgument: there are checkpoints, but none of them fits the program;
// - kCorrupt: there are checkpoints, but none can be used, and at least one of them cannot be used for
//   another reason, for example because it is damaged.
Expected<std::optional<Restored>> restore_newest(const RestorePlan& plan, Meeting& meeting,
                                                 TrainState& state);

}  // namespace muster
