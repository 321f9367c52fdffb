// Gets the stacks of a process. Another program reads them, if that program is installed.
// - For a Python process, it is py-spy. It must be in the folder of the process's Python, or in the process's
//   PATH.
// - For any other process, it is eu-stack (elfutils), in the process's PATH.
//
// Both programs read the process from outside. So they also work if the process does not react. Only the
// destructor waits: if the program still runs, the destructor kills the program, and lets the process
// continue.
#pragma once

#include <string>
#include <utility>

#include "agent/io/workers/process.h"

namespace muster::agent {

class Spy {
 public:
  Spy(Spy&&) = default;
  Spy& operator=(Spy&&) = delete;
  ~Spy();

  enum class Way {
    kPausing,    // the process is stopped for milliseconds, and continued
    kInPassing,  // the process runs on and gets no signal; its stack can be inconsistent; only for Python
  };
  // Starts py-spy or eu-stack, which writes to the descriptor `output`. If this fails, the error says why the
  // stacks of the process cannot be read.
  static Expected<Spy> start(pid_t pid, int output, Way way);
  static bool runs_python(pid_t pid);
  const std::string& name() const { return name_; }  // "py-spy"
  bool has_ended() const;
  // Returns whether the output has stacks. Otherwise it is an error message.
  static bool are_stacks(const std::string& output);

 private:
  Spy(std::string name, Process process, UniqueFd target)
      : name_(std::move(name)), process_(std::move(process)), target_(std::move(target)) {}

  std::string name_;
  Process process_;
  UniqueFd target_;  // the process to continue; empty: it was stopped before, or is not stopped
};

}  // namespace muster::agent
