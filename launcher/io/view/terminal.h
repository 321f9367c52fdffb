// What the launcher prints: the workers' lines, each with `node0:2: ` before it, and its own.
//
// Nothing here ever waits, except flush(): lines are queued, and written as far as the reader takes them. Who
// brought them hears when they have been: a pipe's reader is waited for there, a terminal's is not. What a
// queue has no room for is left out in whole lines, counted, and the count is printed; the log files have
// them all. A terminal or pipe shared with other programs is never made non-blocking for them. One thread.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/byte_queue.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/ids.h"
#include "common/net/asio.h"
#include "launcher/core/view/fold.h"
#include "launcher/core/view/line_prefix.h"
#include "launcher/io/taken.h"

namespace muster::launcher {

// One of the two standard streams.
class Sink {
 public:
  // A pipe's queue has room for what agents send beyond their windows when ranks end.
  static constexpr std::size_t kTerminalLimitBytes = std::size_t{32} << 20;
  static constexpr std::size_t kPipeLimitBytes = std::size_t{256} << 20;

  explicit Sink(int fd);
  // A whole line, its newline included, after `prefix`. Dropped, and counted, when the queue is full.
  void add(std::string_view prefix, std::string_view line);
  void add(std::string_view line) { add({}, line); }
  // The same for many whole lines, with the same prefix each; all or none are dropped.
  void add_lines(std::string_view prefix, std::string_view lines);
  void count_dropped(std::uint64_t lines) { dropped_count_ += lines; }
  // `taken` hears of `bytes` once all that is queued now has been taken, or at once where no reader is waited
  // for.
  void tell_when_taken(std::size_t bytes, Taken taken);
  // Says how many were dropped since it was last said; the next line does so too.
  void tell_dropped();
  // Writes what can be written without waiting. False while something is left.
  bool write_some();
  bool empty() const { return queue_.empty(); }
  // Why it could not be written, the first time; later, and else, 0.
  int take_failure() { return failure_ > 0 ? std::exchange(failure_, -1) : 0; }
  // Lines that wait, and those that were dropped and not said yet to who reads.
  std::uint64_t missing_line_count() const;
  // When the reader last took something, or there was nothing to take.
  TimePoint alive_at(TimePoint now) const { return queue_.empty() ? now : alive_at_; }
  int fd() const { return fd_; }
  bool is_terminal() const { return is_terminal_; }

 private:
  ssize_t write_once(std::string_view bytes) const;
  bool has_room(std::size_t bytes) const;
  void consume(std::size_t bytes);

  enum class Kind { kReopened, kFile, kSocket, kShared } kind_ = Kind::kShared;
  UniqueFd own_;
  int fd_;
  bool is_terminal_ = false;
  int failure_ = 0;  // errno; -1 when it was taken
  ByteQueue queue_;
  struct Mark {
    std::uint64_t end = 0;  // of all bytes that were ever queued
    std::size_t bytes = 0;
    Taken taken;
  };
  std::deque<Mark> marks_;
  struct Gap {  // that it says itself
    std::uint64_t end = 0;
    std::uint64_t line_count = 0;
  };
  std::deque<Gap> gaps_;
  std::uint64_t consumed_bytes_ = 0;
  TimePoint alive_at_{};
  std::uint64_t dropped_count_ = 0;
};

class Terminal {
 public:
  // `output_to_stderr`: keep stdout free for a report. `fold`: whether lines that several ranks print are
  // shown once; else they are where the lines go to a terminal.
  Terminal(const asio::any_io_executor& executor, bool output_to_stderr, std::optional<bool> fold = {},
           std::optional<PrefixTemplate> prefix = {});
  // Whole lines of a worker; `stream` 1 is its stdout, 2 its stderr. `dropped`: lines that the agent left out
  // before them.
  void show_output(NodeId node, Rank rank, int stream, std::string_view text, std::uint64_t dropped,
                   LocalRank local_rank = {});
  // `taken` hears of `bytes` once all that was shown so far on this stream of the workers' has been taken.
  void tell_when_taken(int stream, std::size_t bytes, Taken taken);
  // Whether a worker's stream is shown on a terminal, whose reader nobody waits for.
  bool shows_on_terminal(int stream) const { return sink_of(stream).is_terminal(); }
  // Whether a worker's stream, or anything else that goes where it goes, was taken in the last `period`.
  bool takes(int stream, Duration period) const;
  // A line of the launcher's own, on stderr, after what was queued before it.
  void say(std::string_view text);
  // A line of the launcher's own, of which whatever is shown next takes the place. Without a terminal, or
  // without colours, it is an ordinary line. An empty one only removes the line before.
  void show_progress(std::string_view text);
  // The launcher's own text, on stdout or stderr. Of what workers have said in it, a terminal gets text and
  // colours.
  void print(int stream, std::string_view text);
  struct Patience {
    Duration stall = std::chrono::seconds(30);  // a reader that takes nothing is waited for so long
    Duration limit = Duration::max();           // one that takes something, too
    int signals = -1;                           // a signalfd: whatever the user sends ends the wait
  };
  // Waits until all is written, and says how many lines were not.
  void flush(const Patience& patience);

 private:
  Sink& sink(int stream) { return stream == 1 ? out_ : err_; }
  const Sink& sink_of(int workers_stream) const {
    return workers_stream == 1 && !output_to_stderr_ ? out_ : err_;
  }
  void show_folded(TimePoint now);
  void write();
  void wait_for_readers();
  void clear_progress();

  Sink out_;
  Sink err_;
  bool output_to_stderr_;
  bool color_;
  std::optional<PrefixTemplate> prefix_;
  std::optional<bool> fold_wanted_;
  Fold fold_;
  asio::steady_timer fold_timer_;
  bool fold_timer_runs_ = false;
  bool waiting_ = false;
  bool progress_shown_ = false;
  // Readiness is asked of an epoll instance of our own: Asio would make the descriptors themselves
  // non-blocking.
  asio::posix::stream_descriptor poller_;
};

}  // namespace muster::launcher
