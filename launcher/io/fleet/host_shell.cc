#include "launcher/io/fleet/host_shell.h"

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "common/base/text.h"
#include "launcher/io/fleet/spawn_child.h"
#include "launcher/io/fleet/wait_limit.h"

namespace muster::launcher {

namespace {

constexpr std::size_t kMostLineBytes = 64 << 10;
constexpr std::size_t kTailBytes = 8 << 10;
constexpr std::chrono::milliseconds kReapLimit{1000};

// Waits for the end of a killed process. Gives up after kReapLimit, because SIGKILL does not end a process in
// uninterruptible sleep.
void reap_killed(pid_t pid) {
  for (const TimePoint end = Clock::now() + kReapLimit;
       waitpid(pid, nullptr, WNOHANG) == 0 && Clock::now() < end;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

Expected<HostShell::Streams> HostShell::open_streams(const asio::any_io_executor& executor,
                                                     const std::string& errors) {
  UniqueFd messages(open(errors.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  struct stat before{};
  if (!messages || fstat(messages.get(), &before) != 0) return system_failure("cannot open " + errors, errno);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return system_failure("cannot make a socket", errno);
  net::Socket ours = net::adopt_socket(executor, ends[0]);
  ours.non_blocking(true);
  return Streams{std::move(ours), UniqueFd(ends[1]), std::move(messages), errors,
                 static_cast<std::uint64_t>(before.st_size)};
}

Expected<std::shared_ptr<HostShell>> ChildShell::start(const asio::any_io_executor& executor,
                                                       std::vector<std::string> words,
                                                       const std::string& errors, const rlimit& descriptors) {
  auto streams = open_streams(executor, errors);
  if (!streams) return std::unexpected(streams.error());
  const int theirs = streams->theirs.get();
  const std::string name = words.front();
  const auto pid = spawn_child(
      std::move(words), {.input = theirs, .output = theirs, .errors = streams->messages.get()}, descriptors);
  if (!pid) return std::unexpected(pid.error());
  const int end = static_cast<int>(syscall(SYS_pidfd_open, *pid, 0));
  if (end < 0) {
    const int error = errno;
    ::kill(-*pid, SIGKILL);
    reap_killed(*pid);
    return system_failure("cannot watch " + name, error);
  }
  return std::shared_ptr<HostShell>(
      new ChildShell(*streams, *pid, asio::posix::stream_descriptor(executor, end)));
}

ChildShell::~ChildShell() {
  if (ended_) return;
  signal(SIGKILL);
  reap_killed(pid_);
}

awaitable<Expected<std::string>> HostShell::read_line(TimePoint deadline) {
  const WaitLimit timer(socket_, deadline);
  for (;;) {
    char bytes[4096];
    const ssize_t seen = recv(socket_.native_handle(), bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (seen == 0 && !line_.empty()) co_return std::exchange(line_, {});  // it had no newline
    if (seen == 0) co_return failure(ErrorCode::kUnavailable, "its output ended");
    if (seen < 0) {
      boost::system::error_code error;
      co_await socket_.async_wait(net::Socket::wait_read, asio::redirect_error(asio::use_awaitable, error));
      if (timer.expired()) co_return failure(ErrorCode::kTimedOut, "it printed nothing");
      if (error) co_return failure(ErrorCode::kUnavailable, "the launcher stopped reading from it");
      continue;
    }
    const std::string_view text(bytes, static_cast<std::size_t>(seen));
    const std::size_t newline = text.find('\n');
    const std::size_t taken = newline == std::string_view::npos ? text.size() : newline + 1;
    (void)recv(socket_.native_handle(), bytes, taken, MSG_DONTWAIT);
    line_ += text.substr(0, newline);
    read_bytes_ += taken;
    if (read_bytes_ > kMostLineBytes)
      co_return failure(ErrorCode::kCorrupt, "it prints more than {} bytes", kMostLineBytes);
    if (newline != std::string_view::npos) co_return std::exchange(line_, {});
  }
}

awaitable<Status> HostShell::write(std::string_view bytes, Duration stall) {
  while (!bytes.empty()) {
    const ssize_t put =
        send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(put));
      continue;
    }
    boost::system::error_code error;
    if (errno != EAGAIN) co_return system_failure("it does not read its input", errno);
    const WaitLimit timer(socket_, Clock::now() + stall);
    co_await socket_.async_wait(net::Socket::wait_write, asio::redirect_error(asio::use_awaitable, error));
    if (timer.expired()) co_return failure(ErrorCode::kTimedOut, "it does not read its input");
    if (error) co_return failure(ErrorCode::kUnavailable, "the launcher stopped writing to it");
  }
  co_return Status{};
}

void HostShell::end_input() {
  ::shutdown(socket_.native_handle(), SHUT_WR);
}

awaitable<Expected<int>> ChildShell::ended(TimePoint deadline) {
  const WaitLimit timer(end_, deadline);
  while (!ended_) {
    siginfo_t info{};
    if (waitid(P_PIDFD, static_cast<id_t>(end_.native_handle()), &info, WEXITED | WNOHANG) == 0 &&
        info.si_pid != 0) {
      ended_ = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
      break;
    }
    boost::system::error_code error;
    co_await end_.async_wait(asio::posix::stream_descriptor::wait_read,
                             asio::redirect_error(asio::use_awaitable, error));
    if (timer.expired()) co_return failure(ErrorCode::kTimedOut, "it is still running");
  }
  co_return *ended_;
}

// Sends a signal to the child and to its process group, which the child leads. The kernel does not give the
// group's number to others before the child is reaped. So the signal reaches no other process.
void ChildShell::signal(int number) {
  if (!ended_) ::kill(-pid_, number);
}

void ChildShell::terminate() {
  signal(SIGTERM);
}

void HostShell::link_errors(const std::string& errors) {
  struct stat status{};
  if (stat(errors_.c_str(), &status) != 0 || link(errors_.c_str(), errors.c_str()) != 0) return;
  errors_ = errors;
  errors_from_ = static_cast<std::uint64_t>(status.st_size);
}

std::string HostShell::last_error_line() const {
  const UniqueFd file(open(errors_.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!file || fstat(file.get(), &status) != 0) return {};
  const auto end = static_cast<std::uint64_t>(status.st_size);
  const std::uint64_t from = std::max(errors_from_, end > kTailBytes ? end - kTailBytes : 0);
  std::string text(end > from ? end - from : 0, '\0');
  const ssize_t got = pread(file.get(), text.data(), text.size(), static_cast<off_t>(from));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  std::string last;
  for (std::string_view line : split(text, '\n')) {
    while (line.ends_with('\r') || line.ends_with(' ')) line.remove_suffix(1);
    const bool tells_of_help = line.starts_with("See 'docker") || line.starts_with("Run 'docker");
    if (!line.empty() && !tells_of_help) last = line;
  }
  return last;
}

}  // namespace muster::launcher
