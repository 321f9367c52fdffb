// The lines of all ranks of one attempt in which one of a few texts occurs, in a file of their own:
// torchrun's filtered_stdout.log and filtered_stderr.log.
//
// Each line has the prefix that it has on the terminal. The agents of a job append to one file. The file is
// made with its first line. The ranks wait for it as for their own log files (agent/core/output/flow.h);
// lines that it did not take in time are counted. One thread.
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
    Duration stall;  // a file system that does nothing is waited for so long
  };
  FilteredCopy(File file, std::vector<std::string> texts, net::LogWriter::Trouble trouble);
  ~FilteredCopy();
  FilteredCopy(const FilteredCopy&) = delete;
  FilteredCopy& operator=(const FilteredCopy&) = delete;
  // Whole lines.
  void add(std::string_view prefix, std::string_view lines);
  // Whether more lines should wait.
  bool hold();
  // The workers are to end.
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
