// The launcher's child processes: agents, and what lost agents leave behind.
//
// The launcher is a child subreaper: whatever a dead agent leaves becomes its child, so that it knows when
// nothing of a lost node is left on this machine. One thread.
#pragma once

#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

namespace muster::launcher {

struct ChildEnd {
  pid_t pid = 0;
  std::string how;  // "exited with code 1", "was killed by SIGKILL"
};

// All that have ended since the last call.
std::vector<ChildEnd> reap_children();
// Children other than `known`.
std::vector<pid_t> stray_children(const std::set<pid_t>& known);

}  // namespace muster::launcher
