// Choosing and loading a checkpoint, all ranks together: rank 0 verifies and proposes, and all load it or all
// go on to the next.
//
// For the training thread. Nothing of the state is changed before every rank has found that the checkpoint
// has all of what it will load, but by objects with save() and load(), which take values as they find them.
// Bytes are verified as they are read into the state, so that where some turn out to be damaged another
// checkpoint has to follow.
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

struct RestorePlan {
  CheckpointDirectory directory;
  std::optional<Attempt> attempt;  // ours; none: we only read, from the newest attempt on
  // Only checkpoints of these attempts count; none: all that the chain leads to.
  std::optional<std::vector<Attempt>> only;
  LoadRules rules = {};
  // All ranks or none: what is held in memory by the attempt before ours is taken if it is newer.
  MemoryTier* memory = nullptr;
  std::chrono::milliseconds patience = std::chrono::minutes(30);  // for one rank to read it all
};

struct Restored {
  CheckpointId id;
  bool from_memory = false;
  std::vector<std::string> missing;    // of the program's, not in the checkpoint; rank's own
  std::vector<std::string> left_over;  // in the checkpoint, not asked for by this rank
};

// Every rank calls it; rank 0's plan counts. The checkpoint that was loaded, or none if the directory has
// none that counts. What was passed over for it is printed by rank 0. kFenced if a newer attempt has begun;
// kInvalidArgument if there are checkpoints and none fits the program, kCorrupt if none can be used for other
// reasons.
Expected<std::optional<Restored>> restore_newest(const RestorePlan& plan, Meeting& meeting,
                                                 TrainState& state);

}  // namespace muster
