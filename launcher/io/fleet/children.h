// The launcher's child processes: agents, and what lost agents leave behind.
//
// The launcher is a child subreaper: whatever a dead agent leaves becomes its child, so that it knows when
// nothing of a lost node is left on this machine. Others become its children as well: what a shell had
// started before it executed the launcher, and every orphan of a container whose first process it is. Those
// are nobody's business here. One thread.
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
// By what a process is known to be of this job: in the environment that it was executed with, or by the
// session of an agent, in which the agent's guardian and everything stays that does not ask for a session of
// its own.
struct Marks {
  std::string entry;         // MUSTER_JOB_ID=...
  std::set<pid_t> sessions;  // of all agents that there have been
};
// Children of the job other than `known`.
std::vector<pid_t> leftover_children(const Marks& marks, const std::set<pid_t>& known);

}  // namespace muster::launcher
