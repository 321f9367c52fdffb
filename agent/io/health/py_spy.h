// The stacks of a Python process as py-spy shows them, where that is installed: in the environment of its
// Python, or in its PATH.
//
// py-spy looks from outside: the process need not answer, and is held up for milliseconds. Its output goes to
// a file. Nothing here waits; one that still runs when its object goes is killed.
#pragma once

#include <optional>
#include <string>

#include "agent/io/workers/process.h"

namespace muster::agent {

class PySpy {
 public:
  PySpy(PySpy&&) = default;
  PySpy& operator=(PySpy&&) = delete;
  ~PySpy();

  static bool runs_python(pid_t pid);
  // The program's path; nothing if it is not installed for that process.
  static std::optional<std::string> find_for(pid_t pid);
  // `output_path` is made anew.
  static Expected<PySpy> start(const std::string& program, pid_t pid, const std::string& output_path);
  bool has_ended() const;
  // Whether what it wrote are stacks, and not why there are none.
  static bool are_stacks(const std::string& output);

 private:
  explicit PySpy(Process process) : process_(std::move(process)) {}

  Process process_;
};

}  // namespace muster::agent
