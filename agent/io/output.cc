#include "agent/io/output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include "common/base/log.h"

namespace muster::agent {

namespace {

constexpr std::size_t kReadBytes = 256 << 10;
constexpr Duration kPause = std::chrono::milliseconds(1);
constexpr std::size_t kMuchBytes = 16 << 10;  // of a pipe's usual 64 KiB
constexpr int kPipeBytes = 1 << 20;           // a worker that prints much waits less often

}  // namespace

Expected<std::shared_ptr<Output>> Output::open(const asio::any_io_executor& executor,
                                               const std::string& log_path, Listener listener) {
  std::shared_ptr<Output> output(new Output(executor, log_path, std::move(listener)));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0) return system_failure("cannot make a pipe", errno);
  output->pipe_.reset(ends[0]);
  output->worker_end_.reset(ends[1]);
  output->log_.reset(fcntl(ends[0], F_DUPFD_CLOEXEC, 0));
  if (!output->log_) return system_failure("cannot write " + log_path, errno);
  return output;
}

Output::Output(const asio::any_io_executor& executor, std::string log_path, Listener listener)
    : watched_(executor), log_path_(std::move(log_path)), listener_(std::move(listener)) {}

Output::~Output() {
  if (watched_.is_open()) watched_.release();  // pipe_ closes it
}

Status Output::open_log() {
  log_.reset();
  log_open_ = true;
  const auto open_file = [this] {
    log_.reset(::open(log_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  };
  open_file();
  if (!log_ && errno == ENOENT) {
    if (Status made = make_directories(std::filesystem::path(log_path_).parent_path().string()); !made)
      return made;
    open_file();
  }
  if (!log_) return system_failure("cannot write " + log_path_, errno);
  return {};
}

void Output::prepare_log() {
  if (log_open_) return;
  if (const Status opened = open_log(); !opened) lost(0, opened.error().message());
}

awaitable<void> Output::read_all() {
  auto self = shared_from_this();
  const asio::any_io_executor executor = watched_.get_executor();
  co_await asio::post(executor, asio::use_awaitable);  // when all workers that are to be started have been
  if (!pipe_) co_return;
  boost::system::error_code error;
  watched_.assign(pipe_.get(), error);
  if (error) {
    lost(0, fmt::format("cannot watch the output for {}: {}", log_path_, error.message()));
    co_return close();  // a worker whose pipe nobody empties would wait for ever
  }
  watched_.non_blocking(true);
  asio::steady_timer pause(executor);
  while (watched_.is_open()) {
    co_await watched_.async_wait(asio::posix::stream_descriptor::wait_read,
                                 asio::redirect_error(asio::use_awaitable, error));
    if (error || !watched_.is_open() || !read_some(kReadBytes)) break;
    while (!error && listener_.hold()) {
      pause.expires_after(kPause);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }
}

// False at the end of the stream.
bool Output::read_some(std::size_t limit_bytes) {
  static std::array<char, Lines::kMaxLineBytes + kReadBytes> buffer;  // one thread
  char* const place = buffer.data() + Lines::kMaxLineBytes;
  const ssize_t got = ::read(pipe_.get(), place, std::min(limit_bytes, kReadBytes));
  if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
  const auto size = static_cast<std::size_t>(got);
  if (size >= kMuchBytes && !std::exchange(enlarged_, true)) {
    // Refused beyond a user's share: the usual 64 KiB do as well.
    fcntl(pipe_.get(), F_SETPIPE_SZ, kPipeBytes);
  }
  write_log({place, size});
  const std::string_view whole =
      lines_.feed(std::span(buffer).first(Lines::kMaxLineBytes + size), Clock::now());
  if (whole.empty()) return true;
  last_lines_.add(whole);
  listener_.lines(whole);
  return true;
}

void Output::finish() {
  // As much as is there now: a process that the worker left behind may go on writing for ever.
  int waiting = 0;
  if (!pipe_ || ioctl(pipe_.get(), FIONREAD, &waiting) < 0) waiting = 0;
  while (waiting > 0 && read_some(static_cast<std::size_t>(waiting))) waiting -= static_cast<int>(kReadBytes);
  const std::string last = lines_.flush();
  last_lines_.add(last);
  if (!last.empty()) listener_.lines(last);
}

void Output::close() {
  finish();
  prepare_log();
  if (lost_bytes_ > 0) log::warning("{} bytes of {} were lost", lost_bytes_, log_path_);
  lost_bytes_ = 0;
  if (watched_.is_open()) watched_.release();
  pipe_.reset();
  log_.reset();
}

void Output::write_log(std::string_view bytes) {
  prepare_log();
  while (!bytes.empty()) {
    const ssize_t put = ::write(log_.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0)
      return lost(bytes.size(), fmt::format("cannot write {}: {}", log_path_, std::strerror(errno)));
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

void Output::lost(std::size_t bytes, const std::string& why) {
  if (!std::exchange(losing_, true)) {
    const std::string notice = why + "; what is written there from here on may be lost";
    log::error("{}", notice);
    listener_.notice(notice);
  }
  lost_bytes_ += bytes;
}

}  // namespace muster::agent
