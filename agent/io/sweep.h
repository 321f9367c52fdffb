// Finds and kills what is left on this host of one node of a job: agents, by their command line, and
// processes that have the job's and the node's id in their environment.
//
// For guardians, and for hosts whose agent cannot be reached any more, or was started again. What a living
// agent that is kept started is kept with it. Not seen: processes of which this user may not read the
// environment.
#pragma once

#include <vector>

#include "agent/core/start/agent_arguments.h"
#include "common/base/clock.h"
#include "common/base/process.h"

namespace muster::agent {

// Kills what there is until there is nothing more, for as long as the limit at most.
void kill_all(const SweepOrder& order, Duration limit);

// What was found or, after kill, what lives on. After kill agents are killed first: their guardians know best
// what they leave. Blocks for 0.7 s at most.
std::vector<Leftover> sweep(const SweepOrder& order);

}  // namespace muster::agent
