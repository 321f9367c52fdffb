// One output stream of one worker: from its pipe to its log file, and to the launcher, line by line.
//
// The log file is written by another thread (log_writer.h), the launcher's copy by who listens. A worker
// whose log file or launcher does not keep up waits, by the rule of flow.h; what the rule gives up is dropped
// and counted, and the log file tells where and how much. What a full disk does not take is lost, which is
// said once; training goes on. A pipe's end says nothing about the worker: whoever holds it open may be
// somebody else. Shared with its reading task; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/core/output/flow.h"
#include "agent/core/output/lines.h"
#include "agent/io/output/log_order.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/net/asio.h"
#include "common/net/log_writer.h"

namespace muster::agent {

class Output : public std::enable_shared_from_this<Output> {
 public:
  static constexpr std::size_t kLogQueueBytes = std::size_t{512} << 10;
  // The patience in a hurry: a disk that is busy but not stuck takes what is printed at the end.
  static constexpr Duration kLogPatience = std::chrono::seconds(1);

  struct Log {
    std::string path;
    net::LogWriter& writer;
    int stream = 1;
    std::shared_ptr<LogOrder> order{};          // null: the order is not kept
    std::shared_ptr<net::LogBudget> budget{};   // null: the file may grow as it likes
    Duration stall = std::chrono::seconds(30);  // a file system that does nothing is waited for so long
  };
  // Takes part in what becomes of the output, beside the log file.
  struct Listener {
    // Whole lines of the worker; called in the order of the stream.
    std::function<void(std::string_view lines)> lines;
    // What the agent itself has to say to the user about this stream.
    std::function<void(const std::string& line)> remark;
    // Whether more lines should wait.
    std::function<bool()> hold;
    // The worker is made to wait, for `hold` or for the log file, and not only for a moment.
    std::function<void()> waits = [] {};
  };
  struct Lost {
    std::uint64_t lines = 0;          // dropped, because the log file did not take them in time
    std::uint64_t bytes = 0;          // of those lines, and bytes that could not be written
    std::uint64_t waiting_bytes = 0;  // queued, and perhaps written later
  };

  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();
  // Opens the pipe. Errors name the file.
  static Expected<std::shared_ptr<Output>> open(const asio::any_io_executor& executor, Log log,
                                                Listener listener);
  // Has the log file opened, appending, and its directory made, if that has not been done yet. A failure is
  // treated as one to write.
  void prepare_log();
  // The end that the worker writes to. The agent gives its own copy up once the worker has it.
  int worker_end() const { return worker_end_.get(); }
  void worker_has_its_end() { worker_end_.reset(); }

  // Reads from the executor's next turn until the pipe ends or close(). Keeps this object alive. A pipe that
  // cannot be watched is closed, which is said: what the worker writes then ends the worker.
  awaitable<void> read_all();
  // The worker is to end: it waits only for a log file that takes much in a moment.
  void hurry() { log_flow_.set_hurry(true); }
  // The worker has ended: takes what it left in the pipe, without waiting, its unfinished last line included.
  void finish();
  void close();
  const std::shared_ptr<net::LogWriter::File>& log_file() const { return log_; }
  const LastLines& last_lines() const { return last_lines_; }
  // What the log file lacks so far; final once the file has been written.
  Lost lost() const { return {lost_.lines, lost_.bytes + log_->lost_bytes(), log_->backlog_bytes()}; }
  const std::string& log_path() const { return log_->path(); }

 private:
  Output(const asio::any_io_executor& executor, Log log, Listener listener);
  bool must_wait();
  bool read_some(std::size_t limit_bytes);
  void write_log(std::string_view bytes);
  void put(std::string_view bytes);
  void tell_gap();

  UniqueFd pipe_;
  asio::posix::stream_descriptor watched_;  // the same one, borrowed while read_all() runs
  bool enlarged_ = false;                   // the pipe's buffer has been enlarged
  UniqueFd worker_end_;
  net::LogWriter& writer_;
  Flow log_flow_;
  std::shared_ptr<net::LogWriter::File> log_;
  int stream_;
  std::shared_ptr<LogOrder> order_;
  Listener listener_;
  Lines lines_;
  LastLines last_lines_;
  std::optional<TimePoint> waits_since_;
  Lost lost_;  // what this object has dropped
  Lost gap_;   // the part of lost_ that no line in the log file tells yet
};

}  // namespace muster::agent
