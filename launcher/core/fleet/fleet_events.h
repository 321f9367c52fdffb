// What can happen to the agents of a job, what is decided about them, and what a job hears of that: plain
// values, in and out of fleet.h.
//
// An agent is named by its node and its incarnation. Whatever comes from an earlier incarnation than the
// node's newest is stale: Fleet::listens_to() tells, and neither fleet nor job makes anything of it.
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
// Not by CloseConnection: the agent or the network closed it, or a frame was unreadable.
struct ConnectionClosed {
  AgentId agent;
  ConnectionId connection;
  std::string unreadable{};  // what was wrong with a frame, if that closed the connection; else empty
};
// What is known of an agent's end besides its words.
enum class AgentEnd {
  kOther,
  kRefused,      // it could not be started, and the same would be refused again
  kOutOfMemory,  // the kernel has killed it for want of memory
};
struct ProcessEnded {  // an agent's process has ended, or could not be started
  AgentId agent;
  std::string how;  // "its agent was killed by SIGKILL"
  AgentEnd end = AgentEnd::kOther;
};
struct AgentSaid {  // the message's times have been translated to the launcher's clock
  AgentId agent;
  Attempt attempt;
  wire::ToLauncher message;
  std::optional<TimePoint> heard_at{};  // if it was held since (held_reports.h)
};
struct LeftoversSeen {  // what lost and killed agents left; `left` empty: nothing
  std::vector<Leftover> left{};
  bool killed = false;  // these processes have just been killed (once more)
};
using FleetEvent = std::variant<AgentConnected, ConnectionClosed, ProcessEnded, AgentSaid, LeftoversSeen>;

// ---- Actions ----
struct StartAgent {
  AgentId agent;
};
struct KillAgent {  // by SIGKILL
  AgentId agent;
};
struct AcceptConnection {  // from now on its frames are read
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
struct NodeJoined {  // the node's agent has said Hello, and can be used
  NodeId node;
  std::string host;                    // as it names itself
  std::vector<std::string> addresses;  // of its host (wire::Hello)
  std::string machine;
};
struct NodeLost {
  NodeId node;
  TimePoint at;                     // the agent's end, or its last sign of life if it fell silent
  std::string how;                  // "its agent was killed by SIGKILL"
  AgentEnd end = AgentEnd::kOther;  // as of ProcessEnded
  bool had_joined = false;          // its agent had said Hello
};
struct LeftoversGone {};  // no process of a lost or killed agent is left
// Some were killed and live on: LeftoversGone may never come. Told again when others turn out to live on.
struct LeftoversRemain {
  std::vector<Leftover> left;  // those of which it was not told yet
};
using FleetNews = std::variant<NodeJoined, NodeLost, LeftoversGone, LeftoversRemain>;

}  // namespace muster::launcher
