// The lines of all ranks of one attempt in which one of a few texts occurs, in a file of their own:
// torchrun's filtered_stdout.log and filtered_stderr.log.
//
// Each line has the prefix that it has on the terminal. The agents of a job append to one file. The file is
// made with its first line. What cannot be written, or finds kQueueBytes waiting, is not kept; the rank's own
// log file has it. One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/io/log_writer.h"

namespace muster::agent {

class FilteredCopy {
 public:
  static constexpr std::size_t kQueueBytes = std::size_t{1} << 20;

  FilteredCopy(LogWriter& writer, const std::string& path, std::vector<std::string> texts,
               LogWriter::Trouble trouble);
  ~FilteredCopy();
  FilteredCopy(const FilteredCopy&) = delete;
  FilteredCopy& operator=(const FilteredCopy&) = delete;
  // Whole lines.
  void add(std::string_view prefix, std::string_view lines);

 private:
  std::vector<std::string> texts_;
  std::shared_ptr<LogWriter::File> file_;
  bool used_ = false;
};

}  // namespace muster::agent
