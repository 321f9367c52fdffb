// The launcher's child processes: agents, and what lost agents leave behind.
//
// The launcher is a child subreaper: whatever an agent leaves that has ended becomes its child, so that it
// knows when nothing of a lost node is left on this machine. Others become its children as well: what a shell
// had started before it executed the launcher, and every orphan of a container whose first process it is.
// Those are nobody's business here. One thread.
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
// Marks by which a process is known to belong to this job. In an agent's session are its guardian and all
// processes that do not ask for a session of their own.
struct Marks {
  std::string entry;         // MUSTER_JOB_ID=..., in the environment that the process was executed with
  std::set<pid_t> sessions;  // of all agents that this job has had
};
// Children of this process that belong to the job and are none of `known`.
std::vector<pid_t> leftover_children(const Marks& marks, const std::set<pid_t>& known);

}  // namespace muster::launcher
