#include "common/base/settle.h"

#include <csignal>
#include <cstddef>
#include <sys/prctl.h>
#include <unistd.h>

namespace muster {

const char* settle(const Place& place) noexcept {
  // A process group is enough, since the agent's session has no terminal. With its own session each worker
  // would get its own scheduling group (autogroup); on a busy machine 16 workers then took 77 ms to start
  // instead of 27.
  if (setpgid(0, 0) < 0) return "make a process group";
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) return "set the parent-death signal";
  // The agent may have died before the line above; then no signal would ever kill this process.
  if (getppid() != place.agent) return "find the agent alive";
  for (int fd = 0; fd < 3; ++fd) {
    if (dup2(place.streams[static_cast<std::size_t>(fd)], fd) < 0) return "set the standard streams";
  }
  return nullptr;
}

}  // namespace muster
