#include "agent/io/output/output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include "common/base/log.h"

namespace muster::agent {

namespace {

constexpr std::size_t kReadBytes = 256 << 10;
constexpr Duration kFirstPause = std::chrono::milliseconds(1);
constexpr Duration kLongestPause = std::chrono::milliseconds(32);
constexpr Duration kLongWait = std::chrono::milliseconds(250);
constexpr std::size_t kMuchBytes = 16 << 10;  // of the usual 64 KiB of a pipe
constexpr int kPipeBytes = 1 << 20;           // with more room, a worker that prints a lot waits less often

}  // namespace

Expected<std::shared_ptr<Output>> Output::open(const asio::any_io_executor& executor, Log log,
                                               Listener listener) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) < 0) return system_failure("cannot make a pipe", errno);
  UniqueFd pipe(ends[0]);
  UniqueFd worker_end(ends[1]);
  // The log file is opened later. /dev/null is opened now, to have a descriptor for it in any case.
  UniqueFd reserved(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!reserved) return system_failure("cannot write " + log.path, errno);
  auto parts = std::make_unique<net::LogParts>(log.path, std::move(reserved), log.budget);
  std::shared_ptr<Output> output(new Output(executor, std::move(log), std::move(listener)));
  output->pipe_ = std::move(pipe);
  output->worker_end_ = std::move(worker_end);
  // The file may outlive this object.
  output->log_ =
      output->writer_.add(std::move(parts), [remark = output->listener_.remark](const std::string& what) {
        const std::string line = what + "; later output to this file may be lost";
        log::error("{}", line);
        remark(line);
      });
  return output;
}

Output::Output(const asio::any_io_executor& executor, Log log, Listener listener)
    : watched_(executor),
      writer_(log.writer),
      log_flow_(kLogQueueBytes, log.stall, kLogPatience),
      stream_(log.stream),
      order_(std::move(log.order)),
      listener_(std::move(listener)) {}

Output::~Output() {
  if (watched_.is_open()) watched_.release();  // pipe_ closes it
}

void Output::prepare_log() {
  if (pipe_) log_->prepare();
}

bool Output::must_wait() {
  const TimePoint now = Clock::now();
  const bool for_log = log_flow_.hold(log_->backlog_bytes(), writer_.alive_at(now), now);
  if (!for_log && !listener_.hold()) {
    waits_since_.reset();
    return false;
  }
  if (!waits_since_) waits_since_ = now;
  if (now - *waits_since_ >= kLongWait) listener_.waits();
  return true;
}

awaitable<void> Output::read_all() {
  auto self = shared_from_this();
  const asio::any_io_executor executor = watched_.get_executor();
  co_await asio::post(executor, asio::use_awaitable);  // resumes when all workers have been started
  if (!pipe_) co_return;
  boost::system::error_code error;
  watched_.assign(pipe_.get(), error);
  if (error) {
    const std::string line = fmt::format("cannot watch the output for {}: {}", log_path(), error.message());
    log::error("{}", line);
    listener_.remark(line);
    co_return close();  // a worker whose pipe is never read would wait forever
  }
  watched_.non_blocking(true);
  asio::steady_timer pause(executor);
  while (watched_.is_open()) {
    co_await watched_.async_wait(asio::posix::stream_descriptor::wait_read,
                                 asio::redirect_error(asio::use_awaitable, error));
    for (Duration wait = kFirstPause; !error && watched_.is_open() && must_wait();
         wait = std::min(2 * wait, kLongestPause)) {
      pause.expires_after(wait);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
    if (error || !watched_.is_open() || !read_some(kReadBytes)) break;
  }
}

// Reads up to `limit_bytes` bytes of the stream, and passes them on. Returns false at the end of the stream.
bool Output::read_some(std::size_t limit_bytes) {
  static std::array<char, Lines::kMaxLineBytes + kReadBytes> buffer;  // one thread
  char* const place = buffer.data() + Lines::kMaxLineBytes;
  const ssize_t got = ::read(pipe_.get(), place, std::min(limit_bytes, kReadBytes));
  if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
  const auto size = static_cast<std::size_t>(got);
  if (size >= kMuchBytes && !std::exchange(enlarged_, true)) {
    // If the user's pipes already take too much memory, the kernel refuses this. Then the pipe keeps its 64
    // KiB.
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
  // Reads the bytes that are in the pipe now, and no more. A process that the worker left behind may go on
  // writing forever.
  int waiting = 0;
  if (!pipe_ || ioctl(pipe_.get(), FIONREAD, &waiting) < 0) waiting = 0;
  while (waiting > 0 && read_some(static_cast<std::size_t>(waiting))) waiting -= static_cast<int>(kReadBytes);
  const std::string last = lines_.flush();
  last_lines_.add(last);
  if (!last.empty()) listener_.lines(last);
}

void Output::close() {
  if (!pipe_) return;
  finish();
  tell_gap();
  log_->close();
  if (watched_.is_open()) watched_.release();
  pipe_.reset();
}

void Output::write_log(std::string_view bytes) {
  if (!log_flow_.dropping()) {
    tell_gap();
    return put(bytes);
  }
  if (lost_.bytes == 0) {
    const std::string line =
        fmt::format("{} cannot keep up with the output; later lines may be missing there", log_path());
    log::error("{}", line);
    listener_.remark(line);
  }
  const std::uint64_t lines = count_lines(bytes);
  for (Lost* sum : {&lost_, &gap_}) {
    sum->lines += lines;
    sum->bytes += bytes.size();
  }
}

// Writes a line to the log file. It says that lines are missing at this place, and how many.
void Output::tell_gap() {
  const Lost gap = std::exchange(gap_, {});
  if (gap.bytes > 0)
    put(fmt::format("\nmuster: {} lines ({} bytes) are left out here\n", gap.lines, gap.bytes));
}

void Output::put(std::string_view bytes) {
  if (order_) order_->add(stream_, bytes.size());
  log_->put(bytes);
}

}  // namespace muster::agent
