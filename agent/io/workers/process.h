// Starts one worker process and finds out how it ended.
//
// A worker is executed from a vfork-like clone, so that a failure to execute is known at once, and the
// agent's memory is not copied. Only the agent's one thread may call these functions: a worker dies with the
// thread that started it.
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

// Sets this process's signal dispositions; installs no handler. Workers get the defaults, whatever the agent
// inherited, without further calls.
void settle_signals();

// Raises this process's soft limit of descriptors, since an agent has several for each worker. Returns the
// old limit, which its workers should get. Call while few descriptors are open: spawn() is faster if its own
// descriptors have low numbers.
rlimit prepare_descriptors();

// Asks the kernel to kill a worker rather than this process when memory runs out, if that is permitted.
// Workers that are spawned later get this process's old score.
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

// Errors: kNotFound or kPermission if the program cannot be executed, kInternal if no process could be made.
Expected<Process> spawn(const Command& command);

struct Ending {
  int exit_code = 0;  // if signal is 0
  int signal = 0;
  bool core_dumped = false;
  std::int64_t peak_memory_bytes = 0;  // resident
};
// Reaps a process whose pidfd is readable. Afterwards the kernel may give its pid to another process. A
// debugger that traces the process is told first: until the debugger lets go, reap() returns nothing, and the
// caller tries again later. With a pidfd that is not O_NONBLOCK the call waits instead.
std::optional<Ending> reap(int pidfd);

}  // namespace muster::agent
