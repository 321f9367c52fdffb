// Handles one output stream of one worker. It reads the pipe, has the log file written, and gives whole lines
// to a listener.
//
// - Another thread writes the log file (log_writer.h). The listener passes the lines to the launcher.
// - If the log file or the launcher is slow, the worker waits, according to the rules in flow.h. These rules
//   also say when output is dropped. Dropped output is counted, and the log file says where some is missing,
//   and how much.
// - If a disk is full, the output that does not fit is lost. This is reported once, and the training
//   continues.
// - Other processes can hold the pipe open. So the end of the pipe does not tell whether the worker has
//   ended.
// The task that reads the pipe shares ownership of the object. One thread.
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

// Records in which order a rank wrote to its two streams, so that its two log files can be merged. The file
// is order.log. When the rank changes to the other stream, a line `STREAM BYTES` is added, which stands for
// the bytes before the change. So the last bytes have no line. If a rank writes to only one stream, there is
// no such file. The rank's two outputs share the object. One thread.
class LogOrder {
 public:
  LogOrder(net::LogWriter& writer, const std::string& rank_directory)
      // Errors of the disk are ignored here, because they are also reported for the files of the two streams.
      : file_(writer.add(std::make_unique<net::LogParts>(rank_directory + "/order.log", UniqueFd(), nullptr),
                         [](const std::string&) {})) {}

  const std::shared_ptr<net::LogWriter::File>& file() const { return file_; }
  // Call this before writing `bytes` bytes to the log file of `stream`.
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
  // The `patience` of Flow (flow.h). A busy disk can write the last output of the workers within a second.
  static constexpr Duration kLogPatience = std::chrono::seconds(1);

  struct Log {
    std::string path;
    net::LogWriter& writer;
    int stream = 1;
    std::shared_ptr<LogOrder> order{};          // null: not recorded
    std::shared_ptr<net::LogBudget> budget{};   // null: no limit
    Duration stall = std::chrono::seconds(30);  // how long to wait while the file system writes nothing
  };
  // The functions that receive the output; the log file also gets it.
  struct Listener {
    // Called with whole lines of the worker, in the order of the stream.
    std::function<void(std::string_view lines)> lines;
    // Called with the agent's remarks to the user about this stream.
    std::function<void(const std::string& line)> remark;
    // Returns whether the worker should wait before it writes more lines.
    std::function<bool()> hold;
    // Called again and again while the worker waits, because of `hold` or because of the log file. The first
    // call comes after 250 ms.
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
  // Makes the directory of the log file and opens the file for appending. Does nothing if that is done
  // already. An error is handled in the same way as an error of writing.
  void prepare_log();
  // Returns the end of the pipe for the worker to write to. When the worker has it, call
  // worker_has_its_end(), which closes the agent's copy.
  int worker_end() const { return worker_end_.get(); }
  void worker_has_its_end() { worker_end_.reset(); }

  // Reads the pipe until it ends or until close() is called. Reading does not begin within the call. The task
  // keeps this object alive. If the pipe cannot be watched, this function closes it and sends a remark. The
  // worker then ends when it next writes.
  awaitable<void> read_all();
  // Call this when the worker is being stopped. From then on it waits for the log file only briefly.
  void hurry() { log_flow_.set_hurry(true); }
  // Call this when the worker has ended. Reads the rest of the pipe without waiting for more. If the last
  // line is incomplete, it is included.
  void finish();
  void close();
  const std::shared_ptr<net::LogWriter::File>& log_file() const { return log_; }
  const LastLines& last_lines() const { return last_lines_; }
  // Returns how much of the output is not in the log file. Once the file is written completely, the numbers
  // do not change any more.
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
