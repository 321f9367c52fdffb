// Writes the checkpoint that is in memory to disk. Used when no later attempt will restore it.
//
// Each agent writes the files of its own ranks, and next to each file a text that describes its contents. The
// agent of rank 0 waits for the files of all agents, and commits the newest complete step. A thread does
// this, within about 45 seconds. The destructor waits for this thread. No checkpoint is committed if a slot
// is damaged, if the directory has an attempt of another launch, or if it has a newer checkpoint.
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
  Attempt attempt;  // the newest attempt; the checkpoint on disk belongs to it
  Rank first_rank;
  std::int32_t local_world_size = 0;
  std::int32_t world_size = 0;
  // how long the agent of rank 0, after it has written its files, waits for those of other agents
  Duration patience = std::chrono::seconds(15);
};

// Does the work on the calling thread. The result has no text if there was nothing to write.
MemoryWritten write_out(const HeldMemory& held);

class MemoryWriteOut {
 public:
  // Starts a thread that calls `done` with the result of write_out(). If there is nothing to write, or the
  // thread cannot be started, start() calls `done` itself.
  void start(HeldMemory held, std::function<void(MemoryWritten)> done);

 private:
  std::jthread thread_;
};

}  // namespace muster::agent
