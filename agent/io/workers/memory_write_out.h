// Writes the checkpoint that the ranks hold in memory to disk, when no later attempt will restore it.
//
// Each agent writes the files of its own ranks, with a text next to each file that describes its contents;
// the agent of rank 0 waits for all of them and commits the newest complete step. A thread does this within
// about 45 seconds; the destructor waits for it. The thread gives up on a damaged slot, another launch's
// attempt, or a newer checkpoint in the directory.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "agent/core/node/node.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/ids.h"

namespace muster::agent {

struct HeldMemory {
  std::vector<UniqueFd> slots;  // of the newest attempt's ranks on this node
  std::string directory;        // of the checkpoints
  std::string job;
  Attempt attempt;  // the newest; it becomes the checkpoint's
  Rank first_rank;
  std::int32_t local_world_size = 0;
  std::int32_t world_size = 0;
  // how long rank 0's agent waits for the others, after it has written
  Duration patience = std::chrono::seconds(15);
};

// Blocks. Returns no text if there was nothing to write.
MemoryWritten write_out(const HeldMemory& held);

class MemoryWriteOut {
 public:
  // The thread calls `done` with write_out()'s result. If there is nothing to write, `done` is called at
  // once.
  void start(HeldMemory held, std::function<void(MemoryWritten)> done);

 private:
  std::jthread thread_;
};

}  // namespace muster::agent
