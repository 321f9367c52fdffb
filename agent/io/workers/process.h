// Starting one worker process and learning how it ended.
//
// A worker is executed from a vfork-like clone, so that a failure to execute is known at once and costs no
// copy of the agent. The agent's one thread calls everything here: a worker dies with the thread that started
// it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <vector>

#include "common/base/error.h"
#include "common/base/file.h"

namespace muster::agent {

// What this process has for signals from here on; it installs no handler. Whatever the agent inherited, its
// workers get the defaults, and need not ask for each of them.
void settle_signals();

// Lets this process have as many descriptors as it may: an agent has several for each worker. Returns the
// limit of before, which its workers should get. To be called while few descriptors are open: spawn() is the
// quicker the lower the numbers of its own descriptors are.
rlimit prepare_descriptors();

// The kernel, short of memory, should rather kill a worker than this process, if we may say so. Workers that
// are spawned later have the score that this process had before.
void lower_oom_score();

struct Command {
  std::string program;  // a path
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // NAME=value
  std::string working_directory;
  std::array<int, 3> streams = {};
  rlimit descriptor_limit = {};
  int kept_fd = -1;  // the one descriptor above stderr that the process keeps; -1: none
};

struct Process {
  pid_t pid = 0;
  UniqueFd pidfd;
};

// kNotFound or kPermission when it cannot be executed, kInternal when no process could be made.
Expected<Process> spawn(const Command& command);

struct Ending {
  int exit_code = 0;  // if signal is 0
  int signal = 0;
  bool core_dumped = false;
  std::int64_t peak_memory_bytes = 0;  // resident
};
// Reaps a process whose pidfd is readable. The kernel may give its pid to another one after this. The kernel
// tells a debugger first: until that has let go there is nothing yet, and the caller asks again later. With a
// pidfd that is not O_NONBLOCK this call waits instead.
std::optional<Ending> reap(int pidfd);

}  // namespace muster::agent
