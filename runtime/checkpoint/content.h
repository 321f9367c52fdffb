// Between the parts of a training state and the shards of a checkpoint: which rank writes what, and who gets
// what back.
//
// Plain functions for the training thread, which copy nothing.
#pragma once

#include <string>

#include "common/checkpoint/directory.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/state_part.h"

namespace muster {

// What `rank` has to write. Tensors that all ranks have are shared out by size, the same way on all ranks.
Expected<ShardImage> gather_shard(const SavedState& state, int rank, int world_size);

// A whole checkpoint, every byte of it verified, as `rank` needs it. Errors say which file is wrong and how.
Expected<LoadedState> read_checkpoint(const CheckpointDirectory& directory, CheckpointId id, int rank);

}  // namespace muster
