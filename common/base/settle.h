// What a process does first to become a worker, however it came to be: executed by the agent, or forked by a
// template on the agent's order.
//
// Async-signal-safe: the agent's vfork-like child and a forked worker both call it before anything else. What
// only a program that is about to be executed needs (signals, directory, limits) is not done here: in a fork
// those are as its program has left them.
#pragma once

#include <array>
#include <sys/types.h>

namespace muster {

struct Place {
  pid_t agent = 0;                  // whose child it must be
  std::array<int, 3> streams = {};  // become stdin, stdout, stderr; none of them below 3
};

// Makes the calling process a worker: a process group of its own, killed with its agent, its streams. Null,
// or the name of what failed, with errno.
const char* settle(const Place& place) noexcept;

}  // namespace muster
