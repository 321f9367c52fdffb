// Passes on one output stream of one worker: reads the pipe, writes the log file, and gives whole lines to a
// listener.
//
// - Another thread writes the log file (log_writer.h). The listener passes the lines to the launcher.
// - A worker waits for a slow log file or launcher by the rules in flow.h. Output that is dropped by these
//   rules is counted, and the log file says where and how much is missing.
// - Output that does not fit on a full disk is lost. This is reported once, and the training continues.
// - The end of the pipe does not show whether the worker has ended, because other processes can hold the pipe
//   open.
// The task that reads shares the object. One thread.
#pragma once

#include <cstdint>
#include <fmt/core.h>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/core/output/flow.h"
#include "agent/core/output/lines.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/net/asio.h"
#include "common/net/log_writer.h"

namespace muster::agent {

// Records in order.log in which order a rank wrote to its two streams, so that the two log files can be
// merged. When the rank changes to the other stream, a line `STREAM BYTES` is added for the bytes before; so
// the last bytes have no line. If a rank writes to only one stream, there is no such file. The rank's two
// outputs share the object. One thread.
class LogOrder {
 public:
  LogOrder(net::LogWriter& writer, const std::string& rank_directory)
      // Errors of the disk are ignored here, because the files of the two streams report them.
      : file_(writer.add(std::make_unique<net::LogParts>(rank_directory + "/order.log", UniqueFd(), nullptr),
                         [](const std::string&) {})) {}

  const std::shared_ptr<net::LogWriter::File>& file() const { return file_; }
  // Call before writing these bytes to the stream's log file.
  void add(int stream, std::size_t bytes) {
    if (stream != stream_ && bytes_ > 0) {
      file_->put(fmt::format("{} {}\n", stream_, bytes_));
      bytes_ = 0;
    }
    stream_ = stream;
    bytes_ += bytes;
  }

 private:
  std::shared_ptr<net::LogWriter::File> file_;
  int stream_ = 0;
  std::size_t bytes_ = 0;  // written to `stream_` since the last change
};

class Output : public std::enable_shared_from_this<Output> {
 public:
  static constexpr std::size_t kLogQueueBytes = std::size_t{512} << 10;
  // Flow's `patience` (flow.h). It gives a busy disk time to write what workers print at their end.
  static constexpr Duration kLogPatience = std::chrono::seconds(1);

  struct Log {
    std::string path;
    net::LogWriter& writer;
    int stream = 1;
    std::shared_ptr<LogOrder> order{};          // null: not recorded
    std::shared_ptr<net::LogBudget> budget{};   // null: no limit
    Duration stall = std::chrono::seconds(30);  // how long to wait while the file system writes nothing
  };
  // Receives the output, in addition to the log file.
  struct Listener {
    // Called with whole lines of the worker, in the order of the stream.
    std::function<void(std::string_view lines)> lines;
    // Called with the agent's remarks to the user about this stream.
    std::function<void(const std::string& line)> remark;
    // Returns whether the worker should wait before it writes more lines.
    std::function<bool()> hold;
    // Called again and again while the worker waits for `hold` or the log file, once it has waited for 250
    // ms.
    std::function<void()> waits = [] {};
  };
  struct Lost {
    std::uint64_t lines = 0;          // lines that were dropped because the log file was too slow
    std::uint64_t bytes = 0;          // bytes of those lines, and bytes that could not be written
    std::uint64_t waiting_bytes = 0;  // bytes that are queued, and may still be written
  };

  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();
  // Opens the pipe. Errors name the file.
  static Expected<std::shared_ptr<Output>> open(const asio::any_io_executor& executor, Log log,
                                                Listener listener);
  // Makes the log file's directory and opens the file for appending, if that is not done yet. An error is
  // handled like an error of writing.
  void prepare_log();
  // Returns the end that the worker writes to. Call worker_has_its_end() once the worker has it: this closes
  // the agent's copy.
  int worker_end() const { return worker_end_.get(); }
  void worker_has_its_end() { worker_end_.reset(); }

  // Reads until the pipe ends or close() is called; does not start within the call. Keeps this object alive.
  // If the pipe cannot be watched, closes it and remarks on it; the worker's next write then ends the worker.
  awaitable<void> read_all();
  // Call when the worker is being stopped: from now on it waits only briefly for the log file.
  void hurry() { log_flow_.set_hurry(true); }
  // Call when the worker has ended. Reads what is left in the pipe, including an incomplete last line,
  // without waiting.
  void finish();
  void close();
  const std::shared_ptr<net::LogWriter::File>& log_file() const { return log_; }
  const LastLines& last_lines() const { return last_lines_; }
  // Returns how much output the log file lacks so far. The numbers are final once the file is written.
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
  asio::posix::stream_descriptor watched_;  // the same descriptor, borrowed while read_all() runs
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
  Lost gap_;   // the part of lost_ that the log file does not mention yet
};

}  // namespace muster::agent
