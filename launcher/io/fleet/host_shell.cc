#include "launcher/io/fleet/host_shell.h"

#include <csignal>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/text.h"
#include "launcher/io/fleet/spawn_child.h"

namespace muster::launcher {

namespace {

constexpr std::size_t kMostLineBytes = 64 << 10;
constexpr std::size_t kTailBytes = 8 << 10;

// Has the descriptor's pending waits end at the deadline.
class Timer {
 public:
  template <class Io>
  Timer(Io& io, TimePoint deadline) : timer_(io.get_executor()) {
    if (deadline == TimePoint::max()) return;
    timer_.expires_at(deadline);
    timer_.async_wait([&io, state = state_](const boost::system::error_code& error) {
      if (error || state->over) return;
      state->expired = true;
      io.cancel();
    });
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() {
    state_->over = true;
    timer_.cancel();
  }
  bool expired() const { return state_->expired; }

 private:
  struct State {
    bool expired = false;
    bool over = false;  // whoever waited has gone on, perhaps with the descriptor
  };
  asio::steady_timer timer_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace

Expected<std::shared_ptr<HostShell>> HostShell::start(const asio::any_io_executor& executor,
                                                      std::vector<std::string> words,
                                                      const std::string& errors, const rlimit& descriptors) {
  const UniqueFd messages(open(errors.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  struct stat before{};
  if (!messages || fstat(messages.get(), &before) != 0) return system_failure("cannot open " + errors, errno);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return system_failure("cannot make a socket", errno);
  net::Socket ours = net::adopt_socket(executor, ends[0]);
  ours.non_blocking(true);
  const UniqueFd theirs(ends[1]);
  const std::string name = words.front();
  const auto pid =
      spawn_child(std::move(words), {.input = theirs.get(), .output = theirs.get(), .errors = messages.get()},
                  descriptors);
  if (!pid) return std::unexpected(pid.error());
  UniqueFd end(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
  if (!end) {
    const int why = errno;
    ::kill(-*pid, SIGKILL);
    waitpid(*pid, nullptr, 0);
    return system_failure("cannot watch " + name, why);
  }
  std::shared_ptr<HostShell> shell(new HostShell(executor, std::move(ours)));
  shell->pid_ = *pid;
  shell->end_.assign(end.release());
  shell->errors_ = errors;
  shell->errors_from_ = static_cast<std::uint64_t>(before.st_size);
  return shell;
}

HostShell::~HostShell() {
  if (ended_) return;
  kill();
  siginfo_t info{};
  waitid(P_PIDFD, static_cast<id_t>(end_.native_handle()), &info, WEXITED);
}

awaitable<Expected<std::string>> HostShell::read_line(TimePoint deadline) {
  const Timer timer(socket_, deadline);
  for (;;) {
    char bytes[4096];
    const ssize_t seen = recv(socket_.native_handle(), bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (seen == 0) co_return failure(ErrorCode::kUnavailable, "its output has ended");
    if (seen < 0) {
      boost::system::error_code error;
      co_await socket_.async_wait(net::Socket::wait_read, asio::redirect_error(asio::use_awaitable, error));
      if (timer.expired()) co_return failure(ErrorCode::kTimedOut, "it says nothing");
      if (error) co_return failure(ErrorCode::kUnavailable, "it is not listened to any more");
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
    if (errno != EAGAIN) co_return system_failure("it takes no input", errno);
    const Timer timer(socket_, Clock::now() + stall);
    co_await socket_.async_wait(net::Socket::wait_write, asio::redirect_error(asio::use_awaitable, error));
    if (timer.expired()) co_return failure(ErrorCode::kTimedOut, "it takes no input");
    if (error) co_return failure(ErrorCode::kUnavailable, "it is not written to any more");
  }
  co_return Status{};
}

void HostShell::end_input() {
  ::shutdown(socket_.native_handle(), SHUT_WR);
}

awaitable<Expected<int>> HostShell::ended(TimePoint deadline) {
  const Timer timer(end_, deadline);
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
    if (timer.expired()) co_return failure(ErrorCode::kTimedOut, "it still runs");
  }
  co_return *ended_;
}

// It leads a group of its own, with all that it has started. The group's number is taken while it is not
// reaped.
void HostShell::signal(int number) {
  if (!ended_) ::kill(-pid_, number);
}

void HostShell::terminate() {
  signal(SIGTERM);
}

void HostShell::kill() {
  signal(SIGKILL);
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
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace muster::launcher
