// The events of a job's agents, the actions that the fleet decides on, and its news for the job: plain
// values, for fleet.h.
//
// Node and incarnation name an agent. Messages of earlier incarnations than the node's newest are stale
// (Fleet::listens_to()); fleet and job ignore them.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/process.h"
#include "common/wire/messages.h"

namespace muster::launcher {

// Counts the channels that agents opened, from 1.
using ConnectionId = Id<struct ConnectionTag, std::uint64_t>;

// ---- Events ----
struct AgentConnected {
  AgentId agent;
  ConnectionId connection;
};
// The agent or the network closed the connection, or a frame was unreadable. Not sent after CloseConnection.
struct ConnectionClosed {
  AgentId agent;
  ConnectionId connection;
  std::string unreadable{};  // the error in a frame that closed the connection; else empty
};
// The kind of an agent's end.
enum class AgentEnd {
  kOther,
  kRefused,      // it could not be started, and a retry would be refused, too
  kOutOfMemory,  // the kernel killed it because memory ran out
};
struct ProcessEnded {  // an agent's process has ended, or could not be started
  AgentId agent;
  std::string how;  // "its agent was killed by SIGKILL"
  AgentEnd end = AgentEnd::kOther;
};
struct AgentSaid {  // the message's times are on the launcher's clock
  AgentId agent;
  Attempt attempt;
  wire::ToLauncher message;
  std::optional<TimePoint> heard_at{};  // if it was held back (held_reports.h)
};
struct LeftoversSeen {  // the leftovers of lost and killed agents; `left` empty: none
  std::vector<Leftover> left{};
  bool killed = false;  // these processes were just killed, maybe repeatedly
};
using FleetEvent = std::variant<AgentConnected, ConnectionClosed, ProcessEnded, AgentSaid, LeftoversSeen>;

// ---- Actions ----
struct StartAgent {
  AgentId agent;
};
struct KillAgent {  // by SIGKILL
  AgentId agent;
};
struct AcceptConnection {  // read its frames from now on
  AgentId agent;
  ConnectionId connection;
};
struct CloseConnection {
  ConnectionId connection;
};
struct LookForLeftovers {  // answered by LeftoversSeen
  bool kill = false;
};
struct FleetDecision {
  std::variant<StartAgent, KillAgent, AcceptConnection, CloseConnection, LookForLeftovers> action;
  std::string reason;
};
using FleetDecisions = std::vector<FleetDecision>;

// ---- News, for the job ----
struct NodeJoined {  // the node's agent has sent Hello, and can be used
  NodeId node;
  std::string host;                    // the host's own name
  std::vector<std::string> addresses;  // of its host (wire::Hello)
  std::string machine;
};
struct NodeLost {
  NodeId node;
  TimePoint at;                     // the agent's end, or its last sign of life if it fell silent
  std::string how;                  // "its agent was killed by SIGKILL"
  AgentEnd end = AgentEnd::kOther;  // as in ProcessEnded
  bool had_joined = false;          // its agent had sent Hello
};
struct LeftoversGone {};  // no process of a lost or killed agent is left
// Some leftovers survived a kill: LeftoversGone may never come. Sent again if more turn out to survive.
struct LeftoversRemain {
  std::vector<Leftover> left;  // only those not reported before
};
using FleetNews = std::variant<NodeJoined, NodeLost, LeftoversGone, LeftoversRemain>;

}  // namespace muster::launcher
