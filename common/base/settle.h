// Turns a process that has just begun into a worker. Either the agent has started the process, or a template
// has forked it because the agent asked for it.
//
// The function is async-signal-safe, because the agent's child calls it while it still shares the agent's
// memory, as after vfork(). It does not set signals, the directory and limits. A process that will execute a
// program sets these itself, and a fork of the template already has them from the template.
#pragma once

#include <array>
#include <sys/types.h>

namespace muster {

struct Place {
  pid_t agent = 0;                  // the process must be a child of the agent
  std::array<int, 3> streams = {};  // become stdin, stdout, stderr; each at least 3
};

// Gives the calling process a process group of its own, and its streams. Makes the kernel kill the process
// when its agent ends. Returns null if all went well. Otherwise returns in words which step failed, and errno
// has the error.
const char* settle(const Place& place) noexcept;

}  // namespace muster
