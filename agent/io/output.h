// One output stream of one worker: from its pipe to its log file, complete, and to the terminal, line by
// line.
//
// The log file comes first. If it cannot be written (a full disk) the bytes lost are counted and said once,
// and training goes on. Files are slow to create, so it is opened when it is asked for or needed; its
// descriptor is set aside from the start. The terminal's copy may lose lines. A pipe's end says nothing about
// the worker: whoever holds it open may be somebody else. Shared with its reading task; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "agent/core/lines.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/net/asio.h"

namespace muster::agent {

class Output : public std::enable_shared_from_this<Output> {
 public:
  // What becomes of it, but for the log file.
  struct Listener {
    // Whole lines of the worker; called in the order of the stream.
    std::function<void(std::string_view lines)> lines;
    // What the agent itself has to say to the user about this stream.
    std::function<void(const std::string& line)> notice;
    // Whether more lines should wait.
    std::function<bool()> hold;
  };

  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();
  // Opens the pipe. Errors name the file.
  static Expected<std::shared_ptr<Output>> open(const asio::any_io_executor& executor,
                                                const std::string& log_path, Listener listener);
  // Opens the log file, appending, and makes its directory, if that has not been done yet. A failure is
  // treated as one to write.
  void prepare_log();
  // The end that the worker writes to. The agent gives its own copy up once the worker has it.
  int worker_end() const { return worker_end_.get(); }
  void worker_has_its_end() { worker_end_.reset(); }

  // From the executor's next turn until the pipe ends or close(). Keeps itself alive. If the pipe cannot be
  // watched, that is said and the pipe closed: what the worker writes then ends it.
  awaitable<void> read_all();
  // The worker has ended: takes what it left in the pipe, without waiting, its unfinished last line included.
  void finish();
  void close();
  const LastLines& last_lines() const { return last_lines_; }

 private:
  Output(const asio::any_io_executor& executor, std::string log_path, Listener listener);
  Status open_log();
  bool read_some(std::size_t limit_bytes);
  void write_log(std::string_view bytes);
  void lost(std::size_t bytes, const std::string& why);

  UniqueFd pipe_;
  asio::posix::stream_descriptor watched_;  // the same one, borrowed while read_all() runs
  bool enlarged_ = false;                   // the pipe
  UniqueFd worker_end_;
  std::string log_path_;
  UniqueFd log_;
  bool log_open_ = false;  // else log_ keeps a descriptor for it
  Listener listener_;
  Lines lines_;
  LastLines last_lines_;
  bool losing_ = false;  // it has been said
  std::uint64_t lost_bytes_ = 0;
};

}  // namespace muster::agent
