// Gets the stacks of a process from another program, if that program is installed.
// - For a Python process: py-spy, in the folder of its Python or in its PATH.
// - For any other process: eu-stack (elfutils), in its PATH.
//
// Both read the process from outside, so a process that does not answer also has stacks. Only the destructor
// waits: it kills a program that still runs, and lets the process continue.
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
  // Starts the program, which writes to the descriptor `output`. An error says why the process's stacks
  // cannot be read.
  static Expected<Spy> start(pid_t pid, int output, Way way);
  static bool runs_python(pid_t pid);
  const std::string& name() const { return name_; }  // "py-spy"
  bool has_ended() const;
  // Whether the output has stacks, rather than an error message.
  static bool are_stacks(const std::string& output);

 private:
  Spy(std::string name, Process process, UniqueFd target)
      : name_(std::move(name)), process_(std::move(process)), target_(std::move(target)) {}

  std::string name_;
  Process process_;
  UniqueFd target_;  // the process to continue; empty: it was stopped before, or is not stopped
};

}  // namespace muster::agent
