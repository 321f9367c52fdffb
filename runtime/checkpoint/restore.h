// All ranks choose and load a checkpoint together: rank 0 proposes a checkpoint that it could use, and either
// all ranks load it or all go on to the next one.
//
// Call restore_newest() on the training thread. The state does not change until every rank has found
// everything that it needs in the checkpoint. Only objects with save() and load() take their values earlier.
// Bytes are verified while they are read into the state. So if they turn out to be damaged, another
// checkpoint must be loaded.
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

// Says which checkpoints can be chosen, and how one is loaded. Rank 0 chooses by its own plan; each rank
// loads by its own `rules`.
struct RestorePlan {
  CheckpointDirectory directory;
  // This rank's attempt; none: the program only reads, and begins at the newest attempt.
  std::optional<Attempt> attempt;
  // Only checkpoints of these attempts can be chosen; none: those of all attempts that led to this one.
  std::optional<std::vector<Attempt>> only;
  LoadRules rules = {};
  // Checkpoints in memory, used if they are newer than those on the disk. Null on all ranks or on none.
  MemoryTier* memory = nullptr;
  std::chrono::milliseconds patience = std::chrono::minutes(30);  // how long a rank gets to read a checkpoint
};

struct Restored {
  CheckpointId id;
  bool from_memory = false;
  std::vector<std::string> missing;    // names that this rank asked for and the checkpoint does not have
  std::vector<std::string> left_over;  // names in the checkpoint that this rank did not ask for
};

// Every rank calls it. Returns the checkpoint that was loaded, or none if there is none that can be chosen.
// Rank 0 prints which checkpoints it passed over. Errors:
// - kFenced: a newer attempt has begun;
// - kInvalidArgument: there are checkpoints, but none of them fits the program;
// - kCorrupt: there are checkpoints, but none can be used, at least one for another reason.
Expected<std::optional<Restored>> restore_newest(const RestorePlan& plan, Meeting& meeting,
                                                 TrainState& state);

}  // namespace muster
