#include "launcher/io/view/terminal.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/color.h"
#include "launcher/core/text/plain_text.h"

namespace muster::launcher {

namespace {

// When the job is over, the terminal has to take the last lines. This is the longest time to wait for it.
constexpr Duration kTerminalLimit = std::chrono::seconds(5);

UniqueFd make_poller() {
  UniqueFd poller(epoll_create1(EPOLL_CLOEXEC));
  CHECK(poller.get() >= 0, "errno {}", errno);
  return poller;
}

// For a regular file, epoll_ctl() fails. This does no harm, because files are always ready.
void wait_for(int poller, int fd) {
  epoll_event event{.events = EPOLLOUT | EPOLLONESHOT, .data = {.fd = fd}};
  if (epoll_ctl(poller, EPOLL_CTL_MOD, fd, &event) != 0) epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

Sink::Sink(int fd) : fd_(fd), is_terminal_(isatty(fd) != 0) {
  struct stat status{};
  if (fstat(fd, &status) != 0) return;
  if (S_ISREG(status.st_mode)) {
    kind_ = Kind::kFile;
  } else if (S_ISSOCK(status.st_mode)) {
    kind_ = Kind::kSocket;
  } else {
    // Opens the pipe or terminal once more, because it needs flags of its own. This fails after su, and if a
    // pipe has no reader.
    own_.reset(
        open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!own_) return;
    kind_ = Kind::kReopened;
    fd_ = own_.get();
  }
}

bool Sink::has_room(std::size_t bytes) const {
  return queue_.size() + bytes <= (is_terminal_ ? kTerminalLimitBytes : kPipeLimitBytes);
}

void Sink::add(std::string_view prefix, std::string_view line) {
  if (!has_room(prefix.size() + line.size())) {
    ++dropped_count_;
    return;
  }
  tell_dropped();
  if (queue_.empty()) alive_at_ = Clock::now();
  queue_.append_lines(prefix, line);
}

void Sink::add_lines(std::string_view prefix, std::string_view lines) {
  if (!has_room(0)) {
    dropped_count_ += static_cast<std::uint64_t>(std::ranges::count(lines, '\n'));
    return;
  }
  tell_dropped();
  if (queue_.empty()) alive_at_ = Clock::now();
  queue_.append_lines(prefix, lines);
}

void Sink::tell_when_taken(std::size_t bytes, Taken taken) {
  if (is_terminal_ || queue_.empty()) return (*taken)(bytes);
  marks_.push_back({consumed_bytes_ + queue_.size(), bytes, std::move(taken)});
}

void Sink::consume(std::size_t bytes) {
  queue_.consume(bytes);
  consumed_bytes_ += bytes;
  alive_at_ = Clock::now();
  while (!gaps_.empty() && gaps_.front().end <= consumed_bytes_) gaps_.pop_front();
  while (!marks_.empty() && marks_.front().end <= consumed_bytes_) {
    const Mark mark = std::move(marks_.front());
    marks_.pop_front();
    (*mark.taken)(mark.bytes);
  }
}

std::uint64_t Sink::missing_line_count() const {
  std::uint64_t count = queue_.count('\n') + dropped_count_ - gaps_.size();  // without the lines of gaps
  for (const Gap& gap : gaps_) count += gap.line_count;
  return count;
}

void Sink::tell_dropped() {
  if (dropped_count_ == 0) return;
  queue_.append(fmt::format("launch: {} lines are left out here; the log files have them\n", dropped_count_));
  gaps_.push_back({consumed_bytes_ + queue_.size(), std::exchange(dropped_count_, 0)});
}

bool Sink::write_some() {
  while (!queue_.empty()) {
    const ssize_t put = write_once(queue_.front());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    // Either no reader is left, or the disk is full. The text is dropped, so that the job goes on.
    if (put < 0 && failure_ == 0) failure_ = errno;
    consume(put < 0 ? queue_.front().size() : static_cast<std::size_t>(put));
  }
  return true;
}

ssize_t Sink::write_once(std::string_view bytes) const {
  switch (kind_) {
    case Kind::kReopened:
    case Kind::kFile: return ::write(fd_, bytes.data(), bytes.size());
    case Kind::kSocket: return ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    case Kind::kShared: break;
  }
  // If poll() says that a pipe is writable, it takes PIPE_BUF bytes without blocking.
  pollfd ready{.fd = fd_, .events = POLLOUT, .revents = 0};
  if (poll(&ready, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  return ::write(fd_, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
}

Terminal::Terminal(const asio::any_io_executor& executor, bool output_to_stderr, std::optional<bool> fold,
                   std::optional<PrefixTemplate> prefix)
    : out_(STDOUT_FILENO),
      err_(STDERR_FILENO),
      output_to_stderr_(output_to_stderr),
      color_(colors_wanted()),
      prefix_(std::move(prefix)),
      fold_wanted_(fold),
      fold_timer_(executor),
      poller_(executor, make_poller().release()) {}

void Terminal::show_output(NodeId node, Rank rank, int stream, std::string_view text, std::uint64_t dropped,
                           LocalRank local_rank) {
  const int shown_on = output_to_stderr_ ? 2 : stream;
  Sink& target = sink(shown_on);
  const bool folds = fold_wanted_.value_or(target.is_terminal());
  if (!folds) clear_progress();
  target.count_dropped(dropped);
  const std::string start =
      prefix_ ? filled(*prefix_, rank, local_rank) : line_prefix(node, rank, color_ && target.is_terminal());
  if (!folds && !target.is_terminal()) {
    target.add_lines(start, text);
    return write();
  }
  const TimePoint now = Clock::now();
  std::string cleaned;
  while (!text.empty()) {
    std::string_view line = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
    text.remove_prefix(line.size());
    if (target.is_terminal() && !is_plain(line)) line = cleaned = for_terminal(line, color_);
    if (folds) {
      fold_.add(node, rank, shown_on, line, now);
    } else {
      target.add(start, line);
    }
  }
  if (folds) show_folded(now);
  write();
}

void Terminal::tell_when_taken(int stream, std::size_t bytes, Taken taken) {
  sink(output_to_stderr_ ? 2 : stream).tell_when_taken(bytes, std::move(taken));
}

bool Terminal::takes(int stream, Duration period) const {
  const TimePoint now = Clock::now();
  return sink_of(stream).alive_at(now) + period >= now;
}

// Shows the lines that have waited long enough. Lines wait in case other ranks write the same text.
void Terminal::show_folded(TimePoint now) {
  while (const auto line = fold_.take(now)) {
    clear_progress();
    Sink& target = sink(line->stream);
    target.add(line_prefix(line->from, color_ && target.is_terminal()), line->text);
  }
  const auto deadline = fold_.next_deadline();
  if (!deadline || std::exchange(fold_timer_runs_, true)) return;
  fold_timer_.expires_at(*deadline);
  fold_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    fold_timer_runs_ = false;
    show_folded(Clock::now());
    write();
  });
}

void Terminal::say(std::string_view text) {
  print(2, fmt::format("launch: {}\n", text));
}

void Terminal::show_progress(std::string_view text) {
  if (!(err_.is_terminal() && color_)) {
    if (!text.empty()) say(text);
    return;
  }
  clear_progress();
  if (!text.empty()) {
    winsize size{};
    const std::size_t columns =
        ioctl(err_.fd(), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
    // Cuts the text to one row, because clear_progress() can erase only one.
    err_.add(fmt::format("launch: {}", text).substr(0, columns - 1));
    progress_shown_ = true;
  }
  write();
}

void Terminal::clear_progress() {
  if (!std::exchange(progress_shown_, false)) return;
  err_.add("\r\x1b[K");
  err_.write_some();
}

void Terminal::print(int stream, std::string_view text) {
  show_folded(TimePoint::max());
  clear_progress();
  Sink& target = sink(stream);
  target.add(target.is_terminal() && !is_plain(text) ? for_terminal(text, color_) : std::string(text));
  write();
}

void Terminal::write() {
  const bool out_done = out_.write_some();
  const bool err_done = err_.write_some();
  if (const int failure = out_.take_failure(); failure != 0)
    return say(fmt::format("{}; the job goes on, and its log files have the workers' output",
                           failure == EPIPE
                               ? "nobody reads stdout any more"
                               : fmt::format("stdout cannot be written: {}", std::strerror(failure))));
  if (!(out_done && err_done)) wait_for_readers();
}

void Terminal::wait_for_readers() {
  // Skips empty queues. Their descriptors would be ready all the time, because there is nothing to write.
  for (const Sink* sink : {&out_, &err_}) {
    if (!sink->empty()) wait_for(poller_.native_handle(), sink->fd());
  }
  if (std::exchange(waiting_, true)) return;
  poller_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [this](const boost::system::error_code& error) {
                       if (error) return;
                       waiting_ = false;
                       // epoll_wait() consumes the one-shot events.
                       epoll_event events[2];
                       epoll_wait(poller_.native_handle(), events, 2, 0);
                       write();
                     });
}

void Terminal::flush(const Patience& patience) {
  show_folded(TimePoint::max());
  for (Sink* each : {&out_, &err_}) each->tell_dropped();
  const TimePoint begin = Clock::now();
  bool hurried = false;
  // Returns true if everything is written, or if there is no time left to wait.
  const auto done = [&](Sink& sink) {
    if (sink.write_some() || hurried) return true;
    const TimePoint now = Clock::now();
    const Duration limit = sink.is_terminal() ? std::min(kTerminalLimit, patience.limit) : patience.limit;
    return now - begin >= limit || now - sink.alive_at(now) >= patience.stall;
  };
  for (;;) {
    const bool out_done = done(out_);
    const bool err_done = done(err_);
    if (out_done && err_done) break;
    pollfd waiting[] = {{.fd = out_done ? -1 : out_.fd(), .events = POLLOUT, .revents = 0},
                        {.fd = err_done ? -1 : err_.fd(), .events = POLLOUT, .revents = 0},
                        {.fd = patience.signals, .events = POLLIN, .revents = 0}};
    poll(waiting, 3, 100);
    signalfd_siginfo heard{};
    while ((waiting[2].revents & POLLIN) != 0 && read(patience.signals, &heard, sizeof heard) == sizeof heard)
      hurried |= heard.ssi_signo != SIGCHLD;
  }
  if (out_.empty() || !err_.empty()) return;
  say(fmt::format("the reader of stdout did not take {} lines; the log files have them",
                  out_.missing_line_count()));
}

}  // namespace muster::launcher
