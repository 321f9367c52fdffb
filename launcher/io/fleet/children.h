// The launcher's child processes: agents, and the processes that lost agents leave behind.
//
// The launcher is a child subreaper: when an agent ends, its processes become the launcher's children, so the
// launcher sees when a lost node has nothing left on this machine. Unrelated processes may become its
// children too: those that a shell started before it executed the launcher, and every orphan of a container
// in which the launcher is the first process. These functions ignore them. One thread.
#pragma once

#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include "launcher/io/fleet/bootstrap.h"

namespace muster::launcher {

// Returns all child processes that have ended since the last call.
std::vector<ChildEnd> reap_children();
// A process that has one of these marks belongs to this job. Each agent begins a session. The agent's
// guardian is in this session, and so are all of the agent's processes that have not called setsid().
struct Marks {
  std::string entry;         // MUSTER_JOB_ID=..., in the environment that the process was executed with
  std::set<pid_t> sessions;  // of all agents that this job has started
};
// Returns the children of this process that belong to the job, except those in `known`.
std::vector<pid_t> leftover_children(const Marks& marks, const std::set<pid_t>& known);

}  // namespace muster::launcher
