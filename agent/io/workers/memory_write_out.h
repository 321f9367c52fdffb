// Makes a checkpoint on the disk of what the ranks hold in memory, when no attempt will restore it any more.
//
// Each agent writes what its own ranks hold, with a text beside each file that says what lies there; the
// agent of rank 0 waits for all of them and commits the newest step that is whole. A thread does it, which
// ends within some 45 seconds; the destructor waits for that. A damaged slot, an attempt of somebody else's
// or a newer checkpoint in the directory end it.
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
  Attempt attempt;  // the newest: the checkpoint will be its
  Rank first_rank;
  std::int32_t local_world_size = 0;
  std::int32_t world_size = 0;
  Duration patience = std::chrono::seconds(15);  // of rank 0's agent with the others, when it has written
};

// Nothing is told where there was nothing to write here. Blocks.
MemoryWritten write_out(const HeldMemory& held);

class MemoryWriteOut {
 public:
  // `done` is called with write_out()'s answer, by the thread; at once if there is nothing to write.
  void start(HeldMemory held, std::function<void(MemoryWritten)> done);

 private:
  std::jthread thread_;
};

}  // namespace muster::agent
