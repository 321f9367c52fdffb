// Finds and kills whatever one node of a job has left on this host. It recognizes agents by their command
// line. It recognizes other processes by the ids of the job and the node in their environment.
//
// This is for guardians, and for hosts whose agent was restarted or cannot be reached any more. If the order
// says to keep a living agent, the processes that this agent has started stay, too. If this user is not
// allowed to read the environment of a process, the process is not found.
#pragma once

#include <optional>
#include <vector>

#include "agent/core/start/agent_arguments.h"
#include "common/base/clock.h"
#include "common/base/process.h"

namespace muster::agent {

// A resource tracker gets this much time to end by itself.
constexpr Duration kTrackerLimit = std::chrono::seconds(1);

// Returns whether the process is a resource tracker of Python's multiprocessing. A tracker ends when the last
// process that uses it is gone. Before that, it removes shared memory and semaphores that killed processes
// have left. Returns nothing while the process is being executed, because its command line is empty for a
// moment. In that case ask again at the next look.
std::optional<bool> is_resource_tracker(pid_t pid);

// Kills until it finds nothing more, or until the limit has passed. Until kTrackerLimit has passed, it spares
// resource trackers.
void kill_all(const SweepOrder& order, Duration limit);

// Searches for processes of the job that were left behind. If `order` says to kill, kills them, and returns
// those that survive. Otherwise returns all that it finds. Agents are killed first, because an agent's
// guardian knows best which processes the agent leaves behind. Blocks for at most 0.7 s.
std::vector<Leftover> sweep(const SweepOrder& order);

}  // namespace muster::agent
