// The agents of a job: which nodes have one, in which incarnation, which agents the fleet listens to, when a
// node counts as lost, and the leftovers of lost agents.
//
// Nodes can be added at any time. An agent has a process and a connection. If only one of the two has ended,
// the agent is half gone, and the fleet waits for the second end for at most kHalfGoneLimit. It kills silent
// agents. Leftovers are processes that outlive a lost agent. The fleet looks for them until none is left,
// kills those that stay, and reports those that survive. The job decides which nodes take part in an attempt
// (job.h). The time for an event is at most logarithmic in the number of nodes. Use the fleet on one thread.
// It performs nothing and reads no clock.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "launcher/core/fleet/fleet_events.h"

namespace muster::launcher {

// A node that was lost twice within a window is not used for a while.
struct ExclusionLimits {
  Duration window{};     // longest time between two losses that lead to an exclusion
  Duration exclusion{};  // length of the exclusion, from the last loss on
};

// `losses`: oldest first; the last two count.
inline bool is_excluded(const std::vector<TimePoint>& losses, const ExclusionLimits& limits, TimePoint now) {
  if (losses.size() < 2) return false;
  const TimePoint last = losses.back();
  return last - losses[losses.size() - 2] <= limits.window && now < last + limits.exclusion;
}

struct FleetLimits {
  Duration silence{};  // an agent that sends nothing for this long is lost
  // True: the bootstrap itself reports a failed start. Silence then counts only from the agent's connection,
  // because a start can take long. False: silence counts from the start.
  bool starts_are_watched = false;
  std::string version{};  // of Muster; agents of another version are refused
  ExclusionLimits exclusion{};
};

class Fleet {
 public:
  // How long the fleet waits for the second end of a half-gone agent: of its process or of its connection.
  static constexpr Duration kHalfGoneLimit = std::chrono::seconds(1);
  // When an agent ends, its guardian process kills the agent's leftovers within milliseconds. If leftovers
  // live longer than this limit, the guardian has ended, too, and the fleet kills them.
  static constexpr Duration kLeftoverLimit = std::chrono::seconds(2);
  // Leftovers that are alive this long after the first kill count as unkillable; the fleet looks for them
  // less often.
  static constexpr Duration kUnkillableLimit = std::chrono::seconds(1);
  static constexpr Duration kCheckPeriod = std::chrono::milliseconds(20);
  static constexpr Duration kUnkillableCheckPeriod = std::chrono::seconds(1);

  struct Outcome {
    FleetDecisions decisions;
    std::vector<FleetNews> news;
  };
  explicit Fleet(FleetLimits limits) : limits_(std::move(limits)) {}

  // Decides about one event: AgentConnected, ConnectionClosed, ProcessEnded, AgentSaid or LeftoversSeen.
  template <class Event>
  Outcome on(const Event& event, TimePoint now) {
    handle(event, now);
    return std::exchange(outcome_, {});
  }
  // Decides about everything due at `now`. `noticed_late`: the launcher could not receive for a while;
  // silence before `now` does not count.
  Outcome on_time(TimePoint now, bool noticed_late);
  std::optional<TimePoint> next_deadline() const;
  // Call when the launcher itself could not receive for `time`. The agents' silence does not include this
  // time.
  void slept(Duration time) { slept_ += time; }

  // Adds a node that the job may use from now on; it has no agent yet.
  void add(NodeId node);
  // Starts the next incarnation of the node's agent. The node must be without an agent.
  FleetDecisions hire(NodeId node, TimePoint now, std::string reason);
  // Kills the node's agent, and counts the node as lost at `lost_at`. Sends no NodeLost, because the caller
  // knows.
  FleetDecisions drop(NodeId node, TimePoint lost_at, const std::string& why, TimePoint now);
  // From now on, does not wait for the leftovers that LeftoversRemain has reported.
  void leave_leftovers_behind();
  // Call when the job is over: the end of an agent no longer counts towards exclusion.
  void release() { releasing_ = true; }

  // kAbsent: the node has no agent. kComing: an agent was started. kThere: the agent has sent Hello.
  enum class Presence { kAbsent, kComing, kThere };
  Presence presence(NodeId node) const { return at(node).presence; }
  Incarnation incarnation(NodeId node) const { return at(node).incarnation; }  // of its newest agent
  bool alive(NodeId node) const { return presence(node) != Presence::kAbsent; }
  // Whether messages of this agent count: no newer agent of its node was started, and the node is not lost.
  bool listens_to(AgentId agent) const;
  bool heard_since(AgentId agent, TimePoint when) const {
    return listens_to(agent) && at(agent.node).last_heard > when;
  }
  bool all_heard_since(TimePoint when) const {
    return order_.empty() || order_.begin()->first >= when - slept_;
  }
  std::vector<NodeId> nodes() const;
  const std::set<NodeId>& absent() const { return absent_; }
  std::size_t size() const { return nodes_.size(); }
  std::size_t alive_count() const { return nodes_.size() - absent_.size(); }
  std::size_t there_count() const { return there_count_; }
  // Whether output of any rank waits for its reader, according to the agents' last reports. Looks at every
  // node.
  bool output_waits() const;
  // Whether the node is excluded because it was lost too often. Without a node, returns all excluded nodes.
  bool excluded(NodeId node, TimePoint now) const;
  std::vector<NodeId> excluded(TimePoint now) const;
  std::optional<ConnectionId> connection_of(NodeId node) const { return at(node).connection; }

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(nodes_, forgiven_, slept_, half_gone_, leftovers_, named_, left_behind_, releasing_);
  }
  // Call after reading the fields: derives the other members. Returns false if the fields are inconsistent.
  bool restored();

 private:
  struct Node {
    Presence presence = Presence::kAbsent;
    Incarnation incarnation;  // of the newest agent
    bool process = false;     // started, and not known to have ended
    std::optional<ConnectionId> connection{};
    TimePoint last_heard;
    Duration slept{};   // slept_ at last_heard
    std::string how{};  // how the agent's process ended
    AgentEnd end = AgentEnd::kOther;
    std::string killed_for{};               // why the fleet killed the agent; empty if it did not
    std::optional<TimePoint> ends_since{};  // when the first of its process and its connection ended
    std::vector<TimePoint> losses{};        // only losses of agents that had joined
    bool output_waits = false;              // of some rank, according to the agent's last report

    // Does not count time in which the launcher slept. The node with the earliest value reaches the silence
    // limit first.
    TimePoint silent_since() const { return last_heard - slept; }
  };
  struct HalfGone {
    AgentId agent;
    TimePoint since;
  };
  // The node, if known, and the pid: two hosts may use the same pid.
  using Process = std::pair<std::optional<NodeId>, std::int32_t>;
  struct Leftovers {  // while the fleet waits for the end of leftovers
    TimePoint since;  // the newest loss
    std::optional<TimePoint> look_at;
    bool told = false;            // LeftoversRemain was sent
    std::set<Process> told_of{};  // leftovers that LeftoversRemain has reported, also before the newest loss
  };

  void handle(const AgentConnected& event, TimePoint now);
  void handle(const ConnectionClosed& event, TimePoint now);
  void handle(const ProcessEnded& event, TimePoint now);
  void handle(const AgentSaid& event, TimePoint now);
  void handle(const LeftoversSeen& event, TimePoint now);

  Node& at(NodeId node) { return nodes_.at(node); }
  const Node& at(NodeId node) const { return nodes_.at(node); }
  // The agent's node; nullptr unless listens_to(agent).
  Node* find(AgentId agent);
  bool is_listened_for(const Node& node) const {
    return node.presence != Presence::kAbsent &&
           (!limits_.starts_are_watched || node.last_heard != TimePoint());
  }
  void listen_for(NodeId id, TimePoint from);
  bool is_half_gone(const Node& node) const { return node.process != node.connection.has_value(); }
  void greet(AgentId agent, Node& node, const wire::Hello& hello);
  void kill_for(AgentId agent, Node& node, std::string why);
  void lose(NodeId id, TimePoint now);
  void forget(NodeId node, TimePoint lost_at);
  void expect_leftovers(TimePoint now, TimePoint look_at);
  bool is_named(const Leftover& left) const;
  void forget_ended(const std::vector<Leftover>& left);
  TimePoint silent_at(const Node& node) const;
  void check_half_gone(TimePoint now);
  void check_silence(TimePoint now);
  void check_leftovers(TimePoint now);
  void decide(decltype(FleetDecision::action) action, std::string reason) {
    outcome_.decisions.push_back({std::move(action), std::move(reason)});
  }
  FleetDecisions take_decisions();

  FleetLimits limits_;
  std::map<NodeId, Node> nodes_;
  std::set<NodeId> absent_;
  std::set<NodeId> often_lost_;  // twice or more
  std::size_t there_count_ = 0;
  std::size_t process_count_ = 0;
  std::set<std::pair<TimePoint, NodeId>> order_;  // nodes whose silence is watched, by silent_since()
  TimePoint forgiven_;                            // silence before this moment does not count
  Duration slept_{};                              // total time in which the launcher did not receive
  std::deque<HalfGone> half_gone_;
  std::optional<Leftovers> leftovers_;
  // Leftovers that the fleet does not wait for: the pids that a node's agent has reported, and those left
  // behind.
  std::map<NodeId, std::set<std::int32_t>> named_;
  std::set<Process> left_behind_;
  bool releasing_ = false;
  Outcome outcome_;  // of the current event
};

}  // namespace muster::launcher
