// The stacks of a process as another program shows them, where that is installed: of Python py-spy, in the
// environment of its Python or in its PATH, and of others eu-stack, of elfutils, in their PATH.
//
// Both look from outside: the process need not answer, and is held up for milliseconds. Their output goes to
// a file. Nothing here waits; one that still runs when its object goes is killed, and the process goes on.
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

  // `output_path` is made anew. An error says why nobody can look at the process.
  static Expected<Spy> start(pid_t pid, const std::string& output_path);
  const std::string& name() const { return name_; }  // "py-spy"
  bool has_ended() const;
  // Whether what it wrote are stacks, and not why there are none.
  static bool are_stacks(const std::string& output);

 private:
  Spy(std::string name, Process process, UniqueFd target)
      : name_(std::move(name)), process_(std::move(process)), target_(std::move(target)) {}

  std::string name_;
  Process process_;
  UniqueFd target_;  // none: it was stopped before
};

}  // namespace muster::agent
