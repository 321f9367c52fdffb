// Writes the file filtered_stdout.log or filtered_stderr.log, which torchrun also has. It contains lines of
// all ranks of one attempt: every line that contains one of the given texts.
//
// Each line has the same prefix as on the terminal. All agents of a job append to one file, which the first
// line creates. The ranks wait for this file as they wait for their own log files (agent/core/output/flow.h).
// Lines that are not written in time are dropped and counted. One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/core/output/flow.h"
#include "common/net/log_writer.h"

namespace muster::agent {

class FilteredCopy {
 public:
  struct File {
    std::string path;
    net::LogWriter& writer;
    Duration stall;  // how long to wait while the file system writes nothing
  };
  FilteredCopy(File file, std::vector<std::string> texts, net::LogWriter::Trouble trouble);
  ~FilteredCopy();
  FilteredCopy(const FilteredCopy&) = delete;
  FilteredCopy& operator=(const FilteredCopy&) = delete;
  // Looks for lines that contain one of the texts, and writes them to the file. `lines` consists of whole
  // lines.
  void add(std::string_view prefix, std::string_view lines);
  // Returns whether the ranks should wait before they write more.
  bool hold();
  // Call this when the workers are being stopped. From then on they wait for this file only briefly.
  void hurry() { flow_.set_hurry(true); }
  std::uint64_t lost_lines() const { return lost_lines_; }

 private:
  std::vector<std::string> texts_;
  net::LogWriter& writer_;
  std::shared_ptr<net::LogWriter::File> file_;
  Flow flow_;
  std::uint64_t lost_lines_ = 0;
  bool used_ = false;
};

}  // namespace muster::agent
