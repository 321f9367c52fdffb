// A file in a job's directory that grows line by line: events.jsonl, launcher.log.
//
// If the file cannot be opened or written, for example because a disk is full, this warns once, and tries
// again with later lines. The job goes on. If a disk hangs, this does not block, because another thread
// writes (net/log_writer.h). While kQueueBytes wait for that thread, new lines are dropped. Use this class on
// the thread of the log writer's executor.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/net/log_writer.h"

namespace muster::launcher {

class LineFile {
 public:
  static constexpr std::size_t kQueueBytes = std::size_t{1} << 20;
  // Called when lines are lost for the first time. `what` is a line for the user.
  using Warn = std::function<void(const std::string& what)>;

  // Appends to the file at `path`. If the file does not exist, the first line creates it.
  LineFile(net::LogWriter& writer, const std::string& path, const Warn& warn);
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  ~LineFile() { *told_ = true; }
  void append(std::string_view lines);

 private:
  // True once the user was told about lost lines. The destructor sets it, too: if a disk hangs, the writer
  // may want to warn when `warn_` no longer exists.
  std::shared_ptr<bool> told_ = std::make_shared<bool>(false);
  Warn warn_;
  std::shared_ptr<net::LogWriter::File> file_;
};

}  // namespace muster::launcher
