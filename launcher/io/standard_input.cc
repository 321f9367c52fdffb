#include "launcher/io/standard_input.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"

namespace muster::launcher {

namespace {

constexpr Duration kForegroundPause = std::chrono::milliseconds(500);

// Returns a descriptor of stdin for this process alone. If stdin is a pipe or a terminal, opens it a second
// time. The new descriptor is non-blocking, while the old one, which other programs share, still blocks. If
// stdin is anything else, or if this fails, copies the old descriptor. A file that is opened again would be
// read from its beginning. A socket, or a pipe of another user, cannot be opened again.
int open_input() {
  struct stat status{};
  const bool known = fstat(STDIN_FILENO, &status) == 0;
  int fd = -1;
  if (known && (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)))
    fd = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  CHECK(fd >= 0, "cannot copy stdin: {}", std::strerror(errno));
  return fd;
}

}  // namespace

bool has_standard_input() {
  struct stat status{};
  return fstat(STDIN_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISREG(status.st_mode));
}

StandardInput::StandardInput(const asio::any_io_executor& executor,
                             std::function<void(const std::string&)> say)
    : say_(std::move(say)),
      input_(executor, open_input()),
      timer_(executor),
      is_terminal_(isatty(STDIN_FILENO) != 0) {
  // SIGTTIN would stop this process if it read from a terminal in the background. If it is ignored, the read
  // fails instead.
  if (is_terminal_) signal(SIGTTIN, SIG_IGN);
}

void StandardInput::read(std::size_t most, OnRead done) {
  most_ = most;
  done_ = std::move(done);
  wait();
}

void StandardInput::close(std::size_t unread) {
  boost::system::error_code ignored;
  struct stat status{};
  const bool is_file = fstat(input_.native_handle(), &status) == 0 && S_ISREG(status.st_mode);
  if (is_file) lseek(input_.native_handle(), -static_cast<off_t>(unread), SEEK_CUR);
  done_ = nullptr;
  timer_.cancel();
  input_.close(ignored);
}

// Waits for input, and then calls take(). If stdin is a regular file, async_wait() fails at once, and take()
// can read.
void StandardInput::wait() {
  input_.async_wait(asio::posix::stream_descriptor::wait_read,
                    [this](const boost::system::error_code& error) {
                      if (error != asio::error::operation_aborted && done_) take();
                    });
}

void StandardInput::wait_for_foreground() {
  timer_.expires_after(kForegroundPause);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && done_) wait();
  });
}

void StandardInput::take() {
  // Another program may have read the input first. In this case this function waits again.
  pollfd now{input_.native_handle(), POLLIN, 0};
  if (poll(&now, 1, 0) == 0) return wait();
  std::string text(most_, '\0');
  const ssize_t got = ::read(input_.native_handle(), text.data(), text.size());
  if (got >= 0) {
    text.resize(static_cast<std::size_t>(got));
    return answer(std::move(text));
  }
  if (errno == EAGAIN || errno == EINTR) return wait();
  if (errno == EIO && is_terminal_) return wait_for_foreground();
  say_(fmt::format("cannot read stdin any more: {}", std::strerror(errno)));
  answer("");
}

void StandardInput::answer(std::string text) {
  std::exchange(done_, nullptr)(std::move(text));
}

}  // namespace muster::launcher
