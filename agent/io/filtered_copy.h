// The lines of all ranks of one attempt in which one of a few texts occurs, in a file of their own:
// torchrun's filtered_stdout.log and filtered_stderr.log.
//
// Each line has the prefix that it has on the terminal. The agents of a job append to one file. The file is
// made with its first line; if it cannot be written, that is said once and the lines are not kept. One
// thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/file.h"

namespace muster::agent {

class FilteredCopy {
 public:
  using Notice = std::function<void(const std::string& line)>;
  FilteredCopy(std::string path, std::vector<std::string> texts, Notice notice);
  // Whole lines.
  void add(std::string_view prefix, std::string_view lines);

 private:
  std::string path_;
  std::vector<std::string> texts_;
  Notice notice_;
  UniqueFd file_;
  bool failed_ = false;
};

}  // namespace muster::agent
