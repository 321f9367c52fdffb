#include "launcher/commands/captured_run.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"

namespace muster::launcher {

namespace {

constexpr std::size_t kLimitBytes = std::size_t{1} << 20;

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// Reads until the stream ends, but at most kLimitBytes, and not longer than until the deadline.
std::string read_until(int fd, TimePoint deadline) {
  std::string text;
  char buffer[4096];
  while (text.size() < kLimitBytes) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    if (left <= 0 || poll(&readable, 1, static_cast<int>(left)) <= 0) break;
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

Expected<CapturedRun> run_captured(const std::vector<std::string>& program,
                                   const std::vector<std::string>& environment, Duration limit) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_failure("cannot make a pipe", errno);
  const UniqueFd output(ends[0]);
  UniqueFd input(ends[1]);
  std::vector<std::string> words = program;
  std::vector<std::string> entries = environment;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, input.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, input.get(), STDERR_FILENO);
  pid_t pid = 0;
  const int error =
      posix_spawnp(&pid, words[0].c_str(), &files, nullptr, pointers(words).data(), pointers(entries).data());
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return system_failure("cannot execute " + words[0], error);
  input.reset();
  CapturedRun run{.out = read_until(output.get(), Clock::now() + limit)};
  kill(pid, SIGKILL);  // it may have closed its output and go on, or it takes too long
  int status = 0;
  waitpid(pid, &status, 0);
  run.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return run;
}

}  // namespace muster::launcher
