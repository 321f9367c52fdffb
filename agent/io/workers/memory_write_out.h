// Writes the checkpoint that is in memory to disk. This is done when no later attempt will restore the
// checkpoint from memory.
//
// Each agent writes the files of its own ranks. Next to each file it writes a text that describes the file's
// contents. The agent of rank 0 waits for the files of all agents, and commits the newest complete step. A
// thread does this, within about 45 seconds. The destructor waits for this thread. Nothing is committed if a
// slot is damaged, if the directory has an attempt of another launch, or if the directory has a newer
// checkpoint.
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
  // for the agent of rank 0: how long it waits, after it has written its own files, for the files of other
  // agents
  Duration patience = std::chrono::seconds(15);
};

// Writes the memory out, on the calling thread. If there was nothing to write, the result has no text.
MemoryWritten write_out(const HeldMemory& held);

class MemoryWriteOut {
 public:
  // Starts a thread that calls write_out(), and then calls `done` with the result. If there is nothing to
  // write, or if the thread cannot be started, start() itself calls `done`.
  void start(HeldMemory held, std::function<void(MemoryWritten)> done);

 private:
  std::jthread thread_;
};

}  // namespace muster::agent
