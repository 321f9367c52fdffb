// Finds and kills what is left on this host of one node of a job: agents, by their command line, and
// processes with the job's and the node's id in their environment.
//
// For guardians, and for hosts whose agent was restarted or cannot be reached any more. If a living agent is
// kept, so are the processes that it started. Does not see processes whose environment this user may not
// read.
#pragma once

#include <optional>
#include <vector>

#include "agent/core/start/agent_arguments.h"
#include "common/base/clock.h"
#include "common/base/process.h"

namespace muster::agent {

// How long a resource tracker may take to end by itself.
constexpr Duration kTrackerLimit = std::chrono::seconds(1);

// Whether this is a resource tracker of Python's multiprocessing. It removes shared memory and semaphores
// that a killed process has left, and ends, once the last process that uses it is gone. Nothing while the
// process is being executed: its command line is empty for a moment, so ask again at the next look.
std::optional<bool> is_resource_tracker(pid_t pid);

// Kills until nothing is found, or until the limit has passed. Spares resource trackers until kTrackerLimit
// has passed.
void kill_all(const SweepOrder& order, Duration limit);

// Returns the processes that it finds or, if `order` says to kill, those that survive. Kills agents first: an
// agent's guardian knows best which processes the agent leaves. Blocks for at most 0.7 s.
std::vector<Leftover> sweep(const SweepOrder& order);

}  // namespace muster::agent
