// Prints the workers' lines, each with a prefix such as `node0:2: `, and the launcher's own lines.
//
// Only flush() blocks. Other functions queue lines, and write as many as the reader takes. A callback
// (`taken`) tells the sender when a pipe's reader has taken its lines; for a terminal it comes at once. Drops
// whole lines if a queue is full, counts them, and prints the count; the log files have all lines. Never
// makes a terminal or pipe non-blocking for the other programs that share it. One thread.
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
#include "launcher/io/view/console.h"

namespace muster::launcher {

// One of the two standard streams.
class Sink {
 public:
  // The queue for a pipe is larger. When ranks end, agents send more than their windows allow.
  static constexpr std::size_t kTerminalLimitBytes = std::size_t{32} << 20;
  static constexpr std::size_t kPipeLimitBytes = std::size_t{256} << 20;

  explicit Sink(int fd);
  // Queues `prefix` and a whole line, with its newline. If the queue is full, drops the line, and counts it
  // as dropped.
  void add(std::string_view prefix, std::string_view line);
  void add(std::string_view line) { add({}, line); }
  // Like add(), but for several whole lines. Each of them gets the prefix. Either all of them are dropped or
  // none.
  void add_lines(std::string_view prefix, std::string_view lines);
  void count_dropped(std::uint64_t lines) { dropped_count_ += lines; }
  // Calls `taken` with `bytes` when the reader has taken everything that is queued now. For a terminal, calls
  // it at once.
  void tell_when_taken(std::size_t bytes, Taken taken);
  // If lines were dropped since the last call, queues a line that says how many. add() calls this function,
  // too.
  void tell_dropped();
  // Writes as much as is possible without blocking. Returns false if something is left.
  bool write_some();
  bool empty() const { return queue_.empty(); }
  // If a write has failed, returns its errno, but only once. Otherwise returns 0.
  int take_failure() { return failure_ > 0 ? std::exchange(failure_, -1) : 0; }
  // Returns how many lines have not reached the reader. Some are queued. Others were dropped, and the reader
  // has not been told about them.
  std::uint64_t missing_line_count() const;
  // Returns the last time at which the reader took something, or there was nothing for it to take.
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
  int failure_ = 0;  // errno; -1 after take_failure()
  ByteQueue queue_;
  struct Mark {
    std::uint64_t end = 0;  // counted in all bytes that were ever queued
    std::size_t bytes = 0;
    Taken taken;
  };
  std::deque<Mark> marks_;
  struct Gap {  // a queued line of tell_dropped()
    std::uint64_t end = 0;
    std::uint64_t line_count = 0;
  };
  std::deque<Gap> gaps_;
  std::uint64_t consumed_bytes_ = 0;
  TimePoint alive_at_{};
  std::uint64_t dropped_count_ = 0;
};

class Terminal final : public Console {
 public:
  // With `output_to_stderr`, stdout stays free for a report. `fold` says whether a line that several ranks
  // print is shown only once. By default this is so only on a terminal.
  Terminal(const asio::any_io_executor& executor, bool output_to_stderr, std::optional<bool> fold = {},
           std::optional<PrefixTemplate> prefix = {});
  // Shows whole lines of a worker. If `stream` is 1, they are from its stdout, and if it is 2, from its
  // stderr. `dropped` is the number of lines that the agent dropped before these.
  void show_output(NodeId node, Rank rank, int stream, std::string_view text, std::uint64_t dropped,
                   LocalRank local_rank = {}) override;
  // Calls `taken` with `bytes` when the reader of this stream has taken all output of workers that was shown
  // before.
  void tell_when_taken(int stream, std::size_t bytes, Taken taken) override;
  // Returns whether this stream of the workers goes to a terminal. Ranks do not wait for the reader of a
  // terminal.
  bool shows_on_terminal(int stream) const { return sink_of(stream).is_terminal(); }
  // Returns whether the reader of a worker's stream has taken anything in the last `period`.
  bool takes(int stream, Duration period) const override;
  // Prints a line of the launcher on stderr. It comes after all that was queued before.
  void say(std::string_view text) override;
  // Prints a progress line of the launcher, which the next line overwrites. If stderr is not a terminal, or
  // if colours are off, prints the text as an ordinary line. If the text is empty, this only removes the last
  // progress line.
  void show_progress(std::string_view text) override;
  // Prints the launcher's own text on stdout or stderr. The text can contain lines of workers. If the stream
  // is a terminal, control characters in these lines are not printed, except those for colours.
  void print(int stream, std::string_view text);
  struct Patience {
    Duration stall = std::chrono::seconds(30);  // the longest wait for a reader that takes nothing
    Duration limit = Duration::max();           // the longest wait for a reader that takes something
    int signals = -1;                           // a signalfd: any signal of the user ends the wait
  };
  // Waits until everything is written. If it gives up, prints how many lines were not written.
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
  // An epoll instance of its own. If Asio watched the descriptors themselves, it would make them
  // non-blocking.
  asio::posix::stream_descriptor poller_;
};

}  // namespace muster::launcher
