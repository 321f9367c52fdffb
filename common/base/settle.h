// Makes a new process a worker, before it does anything else. The agent has started it, or a template has
// forked it on the agent's order.
//
// Async-signal-safe, because the agent's vfork-like child also calls it. Does not set signals, directory and
// limits: a process that will execute a program does this itself, and a fork keeps what the template had.
#pragma once

#include <array>
#include <sys/types.h>

namespace muster {

struct Place {
  pid_t agent = 0;                  // the process must be a child of the agent
  std::array<int, 3> streams = {};  // become stdin, stdout, stderr; each at least 3
};

// Gives the calling process its own process group and its streams, and has the kernel kill it when its agent
// ends. Returns null, or says in words which step failed, with errno set.
const char* settle(const Place& place) noexcept;

}  // namespace muster
