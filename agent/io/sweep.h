// Finds and kills what is left on this host of one node of a job: agents, by their command line, and
// processes that have the job's and the node's id in their environment.
//
// For hosts whose agent cannot be reached any more, or was started again. Agents are killed first: their
// guardians know best what they leave. Blocks for 0.7 s at most. What a living agent that is kept started is
// kept with it. Not seen: processes of which this user may not read the environment.
#pragma once

#include <vector>

#include "agent/core/start/agent_arguments.h"
#include "common/base/process.h"

namespace muster::agent {

// Looks once, and kills what it finds. Whether there was anything.
bool kill_once(const SweepOrder& order);

// What was found or, after kill, what lives on.
std::vector<Leftover> sweep(const SweepOrder& order);

}  // namespace muster::agent
