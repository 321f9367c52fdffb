// What the launcher prints: the workers' lines, each with `node0:2: ` before it, and its own.
//
// Nothing here ever waits, except flush(): lines are queued, and written as far as the reader takes them.
// When a slow reader leaves more than kQueueLimitBytes behind, whole lines are left out, counted, and the
// count is printed; the log files have them all. A terminal or pipe shared with other programs is never made
// non-blocking for them. One thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/byte_queue.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/ids.h"
#include "common/net/asio.h"
#include "launcher/core/fold.h"
#include "launcher/core/line_prefix.h"

namespace muster::launcher {

// One of the two standard streams.
class Sink {
 public:
  static constexpr std::size_t kQueueLimitBytes = std::size_t{32} << 20;

  explicit Sink(int fd);
  // A whole line, its newline included, after `prefix`. Dropped, and counted, when the queue is full.
  void add(std::string_view prefix, std::string_view line);
  void add(std::string_view line) { add({}, line); }
  // The same for many whole lines, with the same prefix each; all or none are dropped.
  void add_lines(std::string_view prefix, std::string_view lines);
  void count_dropped(std::uint64_t lines) { dropped_count_ += lines; }
  // Says how many were dropped since it was last said; the next line does so too.
  void tell_dropped();
  // Writes what can be written without waiting. False while something is left.
  bool write_some();
  bool empty() const { return queue_.empty(); }
  int fd() const { return fd_; }
  bool is_terminal() const { return is_terminal_; }

 private:
  ssize_t write_once(std::string_view bytes) const;

  enum class Kind { kReopened, kFile, kSocket, kShared } kind_ = Kind::kShared;
  UniqueFd own_;
  int fd_;
  bool is_terminal_ = false;
  ByteQueue queue_;
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
  // A line of the launcher's own, on stderr, after what was queued before it.
  void say(std::string_view text);
  // A line of the launcher's own that the next one takes the place of, and anything else too; without a
  // terminal, or without colours, just a line. Empty: it is gone.
  void show_progress(std::string_view text);
  // The launcher's own text, on stdout or stderr. Of what workers have said in it, a terminal gets text and
  // colours.
  void print(int stream, std::string_view text);
  // Waits until all is written, but not longer than `limit`.
  void flush(Duration limit);

 private:
  Sink& sink(int stream) { return stream == 1 ? out_ : err_; }
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
