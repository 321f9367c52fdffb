// Looks at the main threads of Python processes, through py-spy and /proc. The processes continue to run, and
// get no signal.
//
// One thread. No function blocks.
#pragma once

#include <cstdint>
#include <map>
#include <sys/types.h>

#include "agent/core/health/still_watch.h"
#include "agent/io/health/spy.h"

namespace muster::agent {

class MainThreads {
 public:
  // As Vitals::look_at_threads().
  std::map<Rank, MainThread> look(const std::map<Rank, std::int32_t>& pids);

 private:
  struct Look {
    Spy spy;
    UniqueFd output;
    pid_t pid = 0;
    int calls = 0;  // of MainThreads::look() since this look began
  };
  std::map<Rank, Look> looks_;
};

}  // namespace muster::agent
