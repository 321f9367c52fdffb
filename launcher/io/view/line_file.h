// A file in a job's directory that grows line by line: events.jsonl, launcher.log.
//
// If the file cannot be opened or written (a full disk), warns once, tries again with later lines, and the
// job goes on. A disk that hangs does not block: another thread writes (net/log_writer.h), and lines are
// dropped while kQueueBytes wait. One thread, the writer's executor's.
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
  // Called the first time that lines are lost, with a line for the user.
  using Warn = std::function<void(const std::string& what)>;

  // Appends to the file, or creates it with the first line.
  LineFile(net::LogWriter& writer, const std::string& path, const Warn& warn);
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  ~LineFile() { *told_ = true; }
  void append(std::string_view lines);

 private:
  // True once the user was told about lost lines, and after this object's end. If a disk hangs, the writer
  // may want to warn only when `warn` is gone.
  std::shared_ptr<bool> told_ = std::make_shared<bool>(false);
  Warn warn_;
  std::shared_ptr<net::LogWriter::File> file_;
};

}  // namespace muster::launcher
