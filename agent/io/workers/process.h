// Starts worker processes, and finds out how they ended.
//
// A worker is started with clone(), in such a way that it works like vfork(). So the caller learns at once
// whether the program was executed, and the agent's memory is not copied. Call all functions on the agent's
// main thread: the kernel kills a worker when the thread that started it ends.
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

// Makes this process ignore SIGPIPE and SIGXFSZ, and sets all other signals to their defaults. So workers get
// the defaults, no matter what the agent has inherited.
void settle_signals();

// Raises this process's soft limit of descriptors, because an agent needs several descriptors for each
// worker. Returns the old limit, which workers should get. Also opens some descriptors for spawn(). spawn()
// is faster if their numbers are low. So call this function while few descriptors are open.
rlimit prepare_descriptors();

// Lowers the OOM score of this process, if that is permitted. If memory runs out, the kernel then kills a
// worker rather than this process. A worker that is spawned later gets the old score of this process.
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

// Starts a process. Returns kNotFound or kPermission if the program cannot be executed, and kInternal for any
// other error.
Expected<Process> spawn(const Command& command);

struct Ending {
  int exit_code = 0;  // valid if `signal` is 0
  int signal = 0;
  bool core_dumped = false;
  std::int64_t peak_memory_bytes = 0;  // of resident memory
};
// Reaps a process whose pidfd is readable, and returns how it ended. Afterwards the kernel may give its pid
// to another process. A debugger that traces the process learns of the end first, and the process can be
// reaped once the debugger has released it. Until then, reap() returns nothing if the pidfd is O_NONBLOCK,
// and blocks otherwise.
std::optional<Ending> reap(int pidfd);

}  // namespace muster::agent
