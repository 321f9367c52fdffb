// Choosing and loading a checkpoint, all ranks together: rank 0 verifies and proposes, and all load it or all
// go on to the next.
//
// For the training thread. Nothing of the state is changed before every rank has read and checked all of what
// it will load.
#pragma once

#include <muster/train_state.h>

#include "runtime/checkpoint/commit.h"

namespace muster {

// Every rank calls it. The checkpoint that was loaded, or none if the directory has no checkpoint at all.
// What was passed over is printed by rank 0. kFenced if a newer attempt has begun; kCorrupt if there are
// checkpoints and none can be used.
Expected<std::optional<CheckpointId>> restore_newest(const CommitPlan& plan, Meeting& meeting,
                                                     TrainState& state);

}  // namespace muster
