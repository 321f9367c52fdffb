// All ranks choose and load a checkpoint together: rank 0 proposes one that it could use, and either all
// ranks load it or all go on to the next.
//
// Call restore_newest() on the training thread. The state stays as it is until every rank has found in the
// checkpoint all that it will load; only objects with save() and load() take their values earlier. Bytes are
// verified while they are read into the state, so after a damaged checkpoint another one must be loaded.
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

// Says which checkpoints count, and how one is loaded. Rank 0 chooses by its own plan; each rank has its own
// `rules`.
struct RestorePlan {
  CheckpointDirectory directory;
  std::optional<Attempt> attempt;  // this rank's; none: a reader, which begins with the newest attempt
  // Only checkpoints of these attempts count; none: all of the lineage.
  std::optional<std::vector<Attempt>> only;
  LoadRules rules = {};
  // Checkpoints in memory, which are taken if they are newer; null on all ranks or on none.
  MemoryTier* memory = nullptr;
  std::chrono::milliseconds patience = std::chrono::minutes(30);  // for one rank to read it all
};

struct Restored {
  CheckpointId id;
  bool from_memory = false;
  std::vector<std::string> missing;    // names that this rank asked for and the checkpoint does not have
  std::vector<std::string> left_over;  // names in the checkpoint that this rank did not ask for
};

// Every rank calls it; rank 0's plan counts. Returns the checkpoint that was loaded, or none if the directory
// has none that counts. Rank 0 prints which ones it passed over. Errors:
// - kFenced: a newer attempt has begun;
// - kInvalidArgument: there are checkpoints, and none fits the program;
// - kCorrupt: there are checkpoints, and none can be used for other reasons.
Expected<std::optional<Restored>> restore_newest(const RestorePlan& plan, Meeting& meeting,
                                                 TrainState& state);

}  // namespace muster
