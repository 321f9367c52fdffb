// The agents of a job. The fleet knows which nodes have an agent, and in which incarnation. It decides which
// agents it listens to, and when a node counts as lost. It also looks after the leftovers of lost agents.
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

// If a node was lost twice within a window of time, it is not used for a while.
struct ExclusionLimits {
  Duration window{};     // longest time between two losses that lead to an exclusion
  Duration exclusion{};  // length of the exclusion, from the last loss on
};

// Returns whether the node is excluded. `losses` has the oldest loss first. Only the last two count.
inline bool is_excluded(const std::vector<TimePoint>& losses, const ExclusionLimits& limits, TimePoint now) {
  if (losses.size() < 2) return false;
  const TimePoint last = losses.back();
  return last - losses[losses.size() - 2] <= limits.window && now < last + limits.exclusion;
}

struct FleetLimits {
  Duration silence{};  // an agent that sends nothing for this long is lost
  // If true, the bootstrap itself reports a start that failed. A start can take long. So the silence of an
  // agent counts only from the moment at which the agent connects. If false, the silence counts from the
  // start of the agent.
  bool starts_are_watched = false;
  std::string version{};  // of Muster; agents of another version are refused
  ExclusionLimits exclusion{};
};

class Fleet {
 public:
  // An agent is half gone if only its process or only its connection has ended. The fleet waits this long for
  // the end of the other one.
  static constexpr Duration kHalfGoneLimit = std::chrono::seconds(1);
  // When an agent ends, its guardian process kills the agent's leftovers within milliseconds. If leftovers
  // live longer than this limit, the guardian has ended, too. Then the fleet kills the leftovers.
  static constexpr Duration kLeftoverLimit = std::chrono::seconds(2);
  // If leftovers are alive this long after they were killed for the first time, they count as unkillable. The
  // fleet then looks for them less often.
  static constexpr Duration kUnkillableLimit = std::chrono::seconds(1);
  static constexpr Duration kCheckPeriod = std::chrono::milliseconds(20);
  static constexpr Duration kUnkillableCheckPeriod = std::chrono::seconds(1);

  struct Outcome {
    FleetDecisions decisions;
    std::vector<FleetNews> news;
  };
  explicit Fleet(FleetLimits limits) : limits_(std::move(limits)) {}

  // Decides about one event. It is AgentConnected, ConnectionClosed, ProcessEnded, AgentSaid or
  // LeftoversSeen.
  template <class Event>
  Outcome on(const Event& event, TimePoint now) {
    handle(event, now);
    return std::exchange(outcome_, {});
  }
  // Decides about everything that is due at `now`. `noticed_late` says that the launcher could not receive
  // for a while. Then the agents' silence before `now` does not count.
  Outcome on_time(TimePoint now, bool noticed_late);
  std::optional<TimePoint> next_deadline() const;
  // Call when the launcher itself was unable to receive for `time`. This time does not count as silence of
  // the agents.
  void slept(Duration time) { slept_ += time; }

  // Adds a node that the job may use from now on. The node has no agent yet.
  void add(NodeId node);
  // Starts a new agent for the node, which must not have an agent now. The new agent has the next incarnation
  // number of this node.
  FleetDecisions hire(NodeId node, TimePoint now, std::string reason);
  // Kills the node's agent. The node counts as lost from `lost_at` on. No NodeLost is sent, because the
  // caller knows of the loss.
  FleetDecisions drop(NodeId node, TimePoint lost_at, const std::string& why, TimePoint now);
  // From now on, the fleet does not wait for the leftovers that LeftoversRemain has reported.
  void leave_leftovers_behind();
  // Call when the job is over. From then on, the end of an agent does not count towards exclusion.
  void release() { releasing_ = true; }

  // Says whether a node has an agent. With kAbsent, it has none. With kComing, its agent was started. With
  // kThere, its agent has sent Hello.
  enum class Presence { kAbsent, kComing, kThere };
  Presence presence(NodeId node) const { return at(node).presence; }
  Incarnation incarnation(NodeId node) const { return at(node).incarnation; }  // of its newest agent
  bool alive(NodeId node) const { return presence(node) != Presence::kAbsent; }
  // Returns whether messages of this agent count. They do if no newer agent of its node was started, and if
  // the node is not lost.
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
  // Returns whether output of any rank is waiting for its reader. The last reports of the agents say this.
  // This function looks at all nodes.
  bool output_waits() const;
  // A node that was lost too often is excluded for a while. excluded(node, now) returns whether this node is
  // excluded, and excluded(now) returns all excluded nodes.
  bool excluded(NodeId node, TimePoint now) const;
  std::vector<NodeId> excluded(TimePoint now) const;
  std::optional<ConnectionId> connection_of(NodeId node) const { return at(node).connection; }

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(nodes_, forgiven_, slept_, half_gone_, leftovers_, named_, left_behind_, releasing_);
  }
  // Call after reading the fields. Computes the other members from them. Returns false if the fields are
  // inconsistent.
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

    // The launcher may have slept, and this time does not count. The node with the earliest value is the
    // first to reach the limit for silence.
    TimePoint silent_since() const { return last_heard - slept; }
  };
  struct HalfGone {
    AgentId agent;
    TimePoint since;
  };
  // The pid, and the node if it is known. Processes on two hosts may have the same pid.
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
  // Returns the agent's node. Returns nullptr if listens_to(agent) is false.
  Node* find(AgentId agent);
  bool is_listened_for(const Node& node) const {
    return node.presence != Presence::kAbsent &&
           (!limits_.starts_are_watched || node.last_heard != TimePoint());
  }
  void listen_for(NodeId id, TimePoint from);
  bool is_half_gone(const Node& node) const { return node.process != node.connection.has_value(); }
  void greet(AgentId agent, Node& node, const wire::Hello& hello);
  void kill_for(AgentId agent, Node& node, std::string why, AgentEnd end = AgentEnd::kOther);
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
  // The fleet does not wait for the end of the processes in named_ and left_behind_. named_ has the pids that
  // agents reported as unkillable, for each node. left_behind_ has the processes of leave_leftovers_behind().
  std::map<NodeId, std::set<std::int32_t>> named_;
  std::set<Process> left_behind_;
  bool releasing_ = false;
  Outcome outcome_;  // of the current event
};

}  // namespace muster::launcher
