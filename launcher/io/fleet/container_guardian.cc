#include "launcher/io/fleet/container_guardian.h"

#include <csignal>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "common/base/process_limits.h"
#include "launcher/io/fleet/container_cleanup.h"
#include "launcher/io/fleet/wait_limit.h"

namespace muster::launcher {

namespace {

constexpr int kLineFd = 3;
constexpr char kGo = '.';
constexpr char kNow = '!';
constexpr Duration kGoLimit = std::chrono::seconds(1);

// Looks several times for what is left. The engine may have been creating a container when the launcher died,
// and then the container appears a moment later. An engine that restarts needs time to come back.
awaitable<void> remove_all(DockerEngine& engine, std::string label, Duration patience) {
  constexpr int kLooks = 3;
  constexpr Duration kPause = std::chrono::seconds(1);
  constexpr Duration kLimit = std::chrono::minutes(2);
  constexpr Duration kAwayLimit = std::chrono::seconds(10);
  co_await wait_until_ended(engine, label, Clock::now() + patience);
  const TimePoint back = Clock::now() + kAwayLimit;
  for (int looks = 0; looks < kLooks;) {
    const auto removed = co_await remove_labelled(engine, {label}, Clock::now() + kLimit);
    looks += removed || Clock::now() >= back ? 1 : 0;
    co_await pause_for(engine.executor(), kPause);
  }
}

// The main function of the guardian process. It lets go of the terminal and the descriptors that it has from
// the launcher, and ignores signals that the user sends.
[[noreturn]] void guard(int line, const std::string& socket, const std::string& label, Duration patience) {
  setsid();
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) signal(number, SIG_IGN);
  const UniqueFd nothing(open("/dev/null", O_RDWR));
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing.get(), stream);
  if (line != kLineFd) dup2(line, kLineFd);
  close_range(kLineFd + 1, ~0U, 0);
  char byte = 0;
  ssize_t count = 0;
  while ((count = read(kLineFd, &byte, 1)) < 0 && errno == EINTR) {
  }
  if (count > 0 && byte == kGo) _exit(0);
  if (count > 0) patience = Duration::zero();
  asio::io_context context(1);
  DockerEngine engine(context.get_executor(), socket);
  asio::co_spawn(context, remove_all(engine, label, patience), asio::detached);
  context.run();
  _exit(0);
}

}  // namespace

Status ContainerGuardian::start(const std::string& socket, const std::string& label, Duration patience) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_failure("cannot make a pipe", errno);
  const UniqueFd theirs(ends[0]);
  line_ = UniqueFd(ends[1]);
  const pid_t pid = fork();
  if (const int error = errno; pid < 0)
    return system_failure("cannot start the guardian of the containers" + nearest_process_limit(error),
                          error);
  if (pid == 0) {
    close(ends[1]);
    guard(ends[0], socket, label, patience);
  }
  pid_ = pid;
  return {};
}

void ContainerGuardian::dismiss() {
  if (pid_ == 0) return;
  (void)write_all(line_.get(), {&kGo, 1}, "the guardian");
  const pid_t pid = std::exchange(pid_, 0);
  const TimePoint deadline = Clock::now() + kGoLimit;
  while (waitpid(pid, nullptr, WNOHANG) == 0) {
    if (Clock::now() >= deadline) kill(pid, SIGKILL);  // for example because SIGSTOP stopped it
    usleep(500);
  }
}

void ContainerGuardian::hurry() {
  if (pid_ != 0) (void)write_all(line_.get(), {&kNow, 1}, "the guardian");
}

}  // namespace muster::launcher
