// Starts worker processes, and finds out how they ended.
//
// A worker is started by a clone that works like vfork(): the caller learns at once whether the program was
// executed, and the agent's memory is not copied. Call all functions on the agent's main thread, because a
// worker is killed when the thread that started it ends.
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

// Sets all signals of this process to their defaults, except for SIGPIPE and SIGXFSZ, which it ignores. So
// workers get the defaults, whatever the agent has inherited.
void settle_signals();

// Raises this process's soft limit of descriptors, because an agent needs several for each worker. Returns
// the old limit, which workers should get. Also opens descriptors that spawn() uses; spawn() is faster if
// their numbers are low, so call this while few descriptors are open.
rlimit prepare_descriptors();

// If it is permitted, lowers this process's OOM score, so that the kernel kills a worker rather than this
// process when memory runs out. Workers that are spawned later get this process's old score.
void lower_oom_score();

struct Command {
  std::string program;  // a path
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // NAME=value
  std::string working_directory;
  std::array<int, 3> streams = {};
  rlimit descriptor_limit = {};
  int kept_fd = -1;  // the only descriptor above stderr that the process keeps; -1: none
};

struct Process {
  pid_t pid = 0;
  UniqueFd pidfd;
};

// Starts a process. Errors: kNotFound or kPermission if the program cannot be executed, kInternal for
// anything else.
Expected<Process> spawn(const Command& command);

struct Ending {
  int exit_code = 0;  // valid if `signal` is 0
  int signal = 0;
  bool core_dumped = false;
  std::int64_t peak_memory_bytes = 0;  // of resident memory
};
// Reaps a process whose pidfd is readable. Afterwards the kernel may give its pid to another process. If a
// debugger traces the process, the debugger is told first. Until it releases the process, reap() returns
// nothing if the pidfd is O_NONBLOCK, and blocks otherwise.
std::optional<Ending> reap(int pidfd);

}  // namespace muster::agent
