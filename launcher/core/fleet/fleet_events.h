// Plain values for fleet.h: the events of a job's agents, the actions that the fleet decides on, and the news
// that it has for the job.
//
// An agent is named by its node and its incarnation. Messages of all incarnations of a node except the newest
// are out of date (Fleet::listens_to()). The fleet and the job ignore them.
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

// The number of a channel that an agent has opened. The first channel has number 1.
using ConnectionId = Id<struct ConnectionTag, std::uint64_t>;

// ---- Events ----
struct AgentConnected {
  AgentId agent;
  ConnectionId connection;
};
// The connection is closed. The agent or the network closed it, or a frame could not be read. This event does
// not follow CloseConnection.
struct ConnectionClosed {
  AgentId agent;
  ConnectionId connection;
  std::string unreadable{};  // the error in a frame that closed the connection; else empty
};
// The kind of an agent's end.
enum class AgentEnd {
  kOther,
  kRefused,      // it could not be started or used, and a retry would be refused, too
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
// Some leftovers have survived a kill, so LeftoversGone may never come. If it turns out later that more have
// survived, this is sent again.
struct LeftoversRemain {
  std::vector<Leftover> left;  // only those not reported before
};
using FleetNews = std::variant<NodeJoined, NodeLost, LeftoversGone, LeftoversRemain>;

}  // namespace muster::launcher
