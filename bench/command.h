// Starts the programs that the benchmarks measure, hides their output, and waits for their end.
#pragma once

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <poll.h>
#include <spawn.h>
#include <string>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "common/base/file.h"

namespace muster::bench {

using Command = std::vector<std::string>;

// The path of a program, such as "torchrun", of the Python that the benchmarks' LibTorch belongs to. Empty if
// that LibTorch came without Python.
inline std::string torch_program(const std::string& name) {
  const std::filesystem::path python = MUSTER_TORCH_PYTHON;
  return python.empty() ? "" : (python.parent_path() / name).string();
}

// The folder of this program, where the measured programs are, too.
inline std::filesystem::path own_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

// Makes scratch directories in memory: ext4 skips every inode freed in the last minutes, and a run frees
// thousands.
inline void keep_scratch_in_memory() {
  if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 0);
}

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

// Runs the command to its end. False if it could not be started or failed.
inline bool runs_well(const Command& command) {
  const pid_t pid = spawn(command);
  int status = 0;
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

// Runs the command with `file` as its last argument, and returns the JSON that the command writes there; null
// if it failed.
inline nlohmann::json figures_of(Command command, const std::filesystem::path& file) {
  std::filesystem::remove(file);
  command.push_back(file);
  if (!runs_well(command)) return {};
  return nlohmann::json::parse(read_file(file, 4096).value_or(""), nullptr, false);
}

// Waits up to the limit for a child of ours to end, and returns whether it has ended. Does not reap it.
inline bool ends_within(pid_t pid, int milliseconds) {
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd waiting{pidfd.get(), POLLIN, 0};
  return poll(&waiting, 1, milliseconds) > 0;
}

// Returns the waitpid() status of a child of ours if it ends in time; otherwise kills it.
inline std::optional<int> status_within(pid_t pid, int milliseconds) {
  const bool hung = !ends_within(pid, milliseconds);
  if (hung) kill(pid, SIGTERM);
  if (hung && !ends_within(pid, 2000)) kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  return hung ? std::nullopt : std::optional(status);
}

// Starts the command as a child, with these variables added to the environment. Its output goes to a file.
[[noreturn]] inline void become(const Command& command, const std::map<std::string, std::string>& environment,
                                const std::string& output) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), STDOUT_FILENO);
  dup2(STDOUT_FILENO, STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  _exit(127);
}

}  // namespace muster::bench
