// What can happen to the agents of a job: plain values, in and out of fleet.h.
//
// An agent is named by its node and its incarnation. Whatever comes of an earlier incarnation than the newest
// is stale, and is dropped in one place, the fleet.
#pragma once

#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/process.h"

namespace muster::launcher {

// Counts the channels that agents opened, from 1.
using ConnectionId = Id<struct ConnectionTag, std::uint64_t>;

// ---- Events ----
struct AgentConnected {
  AgentId agent;
  ConnectionId connection;
};
struct ConnectionClosed {  // by the agent, or the way to it; not by us
  AgentId agent;
  ConnectionId connection;
  std::string unreadable{};  // what it sent, if that is why; else empty
};
struct ProcessEnded {  // or could not be started
  AgentId agent;
  std::string how;  // "its agent was killed by SIGKILL"
};
struct LeftoversSeen {  // of lost and killed agents; empty: nothing is left
  std::vector<Leftover> left{};
  bool killed = false;  // just now
};

}  // namespace muster::launcher
