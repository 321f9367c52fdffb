// Starting what the benchmarks measure, with its output thrown away, and waiting for its end.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>
#include <vector>

#include "common/base/file.h"

namespace muster::bench {

using Command = std::vector<std::string>;

// -1 if it cannot be executed.
inline pid_t spawn(const Command& command, char** environment = environ) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int fd : {1, 2}) posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environment);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : -1;
}

// Whether a child of ours has ended; waits for that as long as it may. It is not reaped.
inline bool ends_within(pid_t pid, int milliseconds) {
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd waiting{pidfd.get(), POLLIN, 0};
  return poll(&waiting, 1, milliseconds) > 0;
}

}  // namespace muster::bench
