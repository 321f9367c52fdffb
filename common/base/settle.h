// The first thing that a process does to become a worker, whether the agent executed it or a template forked
// it on the agent's order.
//
// Async-signal-safe: the agent's vfork-like child and a forked worker both call it before anything else.
// Signals, directory and limits are not set here: only a program that is about to be executed needs them set,
// and in a fork they stay as the program left them.
#pragma once

#include <array>
#include <sys/types.h>

namespace muster {

struct Place {
  pid_t agent = 0;                  // the process must be its child
  std::array<int, 3> streams = {};  // become stdin, stdout, stderr; none of them below 3
};

// Makes the calling process a worker: gives it a process group of its own and its streams, and has it killed
// when its agent ends. Returns null, or the name of the call that failed, with errno.
const char* settle(const Place& place) noexcept;

}  // namespace muster
