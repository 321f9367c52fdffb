// A file in a job's directory that takes lines as things happen: events.jsonl, launcher.log.
//
// A file that cannot be opened or written, as when the disk is full, must not stop the job: that is said
// once, and later lines are tried all the same. Nor must a disk that hangs: another thread writes
// (net/log_writer.h), and lines that find kQueueBytes waiting are left out. One thread, the writer's
// executor's.
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
  // What the user should know, the first time that something is not written.
  using Warn = std::function<void(const std::string& what)>;

  // Goes on at its end, or creates it with its first line.
  LineFile(net::LogWriter& writer, const std::string& path, const Warn& warn);
  void append(std::string_view lines);

 private:
  Warn warn_;
  std::shared_ptr<net::LogWriter::File> file_;
};

}  // namespace muster::launcher
