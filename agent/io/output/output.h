// One output stream of one worker: from its pipe to its log file, and to the launcher, line by line.
//
// Another thread writes the log file (log_writer.h); the listener passes the lines to the launcher. A worker
// waits for a slow log file or launcher by the rule in flow.h. Output that the rule gives up is dropped and
// counted, and the log file says where and how much. Output that does not fit on a full disk is lost, which
// is reported once; the training continues. The end of the pipe says nothing about the worker, because
// another process may hold it open. Shared with the task that reads; one thread.
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

// Records in order.log, next to the files of a rank's two streams, in which order the rank wrote to the
// streams, so that the two files can be merged again. Each run of bytes that was followed by bytes of the
// other stream has a line `STREAM BYTES`; the last run has none. A rank that writes to only one stream has no
// such file. Shared by the rank's two outputs; one thread.
class LogOrder {
 public:
  LogOrder(net::LogWriter& writer, const std::string& rank_directory)
      // Errors of the disk are ignored here: the streams' own files report them.
      : file_(writer.add(std::make_unique<net::LogParts>(rank_directory + "/order.log", UniqueFd(), nullptr),
                         [](const std::string&) {})) {}

  const std::shared_ptr<net::LogWriter::File>& file() const { return file_; }
  // The caller writes these bytes to the stream's own file next.
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
  std::size_t bytes_ = 0;  // of the newest run
};

class Output : public std::enable_shared_from_this<Output> {
 public:
  static constexpr std::size_t kLogQueueBytes = std::size_t{512} << 10;
  // Flow's `patience` in a hurry (flow.h). A disk that is busy, but not stuck, gets time for what is printed
  // at the end.
  static constexpr Duration kLogPatience = std::chrono::seconds(1);

  struct Log {
    std::string path;
    net::LogWriter& writer;
    int stream = 1;
    std::shared_ptr<LogOrder> order{};          // null: not recorded
    std::shared_ptr<net::LogBudget> budget{};   // null: no limit
    Duration stall = std::chrono::seconds(30);  // how long to wait for a file system that does nothing
  };
  // Receives the output, in addition to the log file.
  struct Listener {
    // Called with whole lines of the worker, in the order of the stream.
    std::function<void(std::string_view lines)> lines;
    // Called with the agent's remarks to the user about this stream.
    std::function<void(const std::string& line)> remark;
    // Returns whether more lines should wait.
    std::function<bool()> hold;
    // Called when the worker has to wait for `hold` or the log file, for more than a moment.
    std::function<void()> waits = [] {};
  };
  struct Lost {
    std::uint64_t lines = 0;          // dropped, because the log file was too slow
    std::uint64_t bytes = 0;          // of those lines, and bytes that could not be written
    std::uint64_t waiting_bytes = 0;  // queued, may still be written
  };

  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();
  // Opens the pipe. Errors name the file.
  static Expected<std::shared_ptr<Output>> open(const asio::any_io_executor& executor, Log log,
                                                Listener listener);
  // Opens the log file for appending and makes its directory, unless that is done. An error counts as an
  // error of writing.
  void prepare_log();
  // The end that the worker writes to. The agent closes its own copy once the worker has it.
  int worker_end() const { return worker_end_.get(); }
  void worker_has_its_end() { worker_end_.reset(); }

  // Reads from the executor's next turn until the pipe ends or close() is called. Keeps this object alive. If
  // the pipe cannot be watched it is closed, with a remark: the worker's next write then ends the worker.
  awaitable<void> read_all();
  // The worker is being stopped: it waits only for a log file that still makes good progress.
  void hurry() { log_flow_.set_hurry(true); }
  // The worker has ended: reads the rest of the pipe, without waiting, including an incomplete last line.
  void finish();
  void close();
  const std::shared_ptr<net::LogWriter::File>& log_file() const { return log_; }
  const LastLines& last_lines() const { return last_lines_; }
  // The output that the log file lacks so far; final once the file is written.
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
