// The agents of a job: which nodes have one, in which incarnation, which agent is heard, when a node counts
// as lost, and what its agent leaves behind.
//
// Nodes come and go by number; nobody fixes how many. An agent has a process and a connection: when one of
// the two has ended and the other has not, the agent is half gone, and the second end is not waited for long.
// A silent agent is killed. Leftovers of lost agents are looked for until none is left; those that stay are
// killed, and those that survive that are named. Which nodes take part in an attempt is the job's business
// (job.h). Each event costs at most the logarithm of the number of nodes. One thread; performs nothing, reads
// no clock.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/core/fleet/exclusion.h"
#include "launcher/core/fleet/fleet_events.h"

namespace muster::launcher {

struct FleetLimits {
  Duration silence{};  // an agent that says nothing for so long is lost
  // The bootstrap, which may take its time, says when an agent does not come: silence counts from its
  // connection. Else it counts from the start.
  bool starts_are_watched = false;
  std::string version{};  // of Muster: an agent of another cannot be used
  ExclusionLimits exclusion{};
};

class Fleet {
 public:
  // An agent that is half gone has so long for its second end, be it the process's or the connection's.
  static constexpr Duration kHalfGoneLimit = std::chrono::seconds(1);
  // The guardian of an agent that has ended clears up within milliseconds; leftovers that outlive the agent
  // this long have lost their guardian too, and are killed.
  static constexpr Duration kLeftoverLimit = std::chrono::seconds(2);
  // Leftovers that live on so long after they were first killed cannot be killed, and are looked for less
  // often.
  static constexpr Duration kUnkillableLimit = std::chrono::seconds(1);
  static constexpr Duration kCheckPeriod = std::chrono::milliseconds(20);
  static constexpr Duration kUnkillableCheckPeriod = std::chrono::seconds(1);

  struct Outcome {
    FleetDecisions decisions;
    std::vector<FleetNews> news;
  };
  explicit Fleet(FleetLimits limits) : limits_(std::move(limits)) {}

  // What is decided about one event: AgentConnected, ConnectionClosed, ProcessEnded, AgentSaid or
  // LeftoversSeen.
  template <class Event>
  Outcome on(const Event& event, TimePoint now) {
    handle(event, now);
    return std::exchange(outcome_, {});
  }
  // What is decided about all that is due at `now`. `noticed_late`: the launcher could hear nobody for a
  // while, so that no agent's silence before `now` counts.
  Outcome on_time(TimePoint now, bool noticed_late);
  std::optional<TimePoint> next_deadline() const;
  // The launcher listened to nobody for this time, which is no part of any agent's silence.
  void slept(Duration time) { slept_ += time; }

  // The job may use this node from now on; the node has no agent yet.
  void add(NodeId node);
  // Starts the next incarnation of the agent of a node that has none.
  FleetDecisions hire(NodeId node, TimePoint now, std::string reason);
  // Kills the node's agent, and counts the node as lost at `lost_at`. The caller knows: no NodeLost follows.
  FleetDecisions drop(NodeId node, TimePoint lost_at, const std::string& why, TimePoint now);
  // Leftovers of which LeftoversRemain was told are not waited for any more, now and after later losses.
  void leave_leftovers_behind();
  // The job is over: no agent's end counts as a loss for exclusion any more.
  void release() { releasing_ = true; }

  // kAbsent: the node has no agent. kComing: one was started. kThere: it has said Hello.
  enum class Presence { kAbsent, kComing, kThere };
  Presence presence(NodeId node) const { return at(node).presence; }
  Incarnation incarnation(NodeId node) const { return at(node).incarnation; }  // of its newest agent
  bool alive(NodeId node) const { return presence(node) != Presence::kAbsent; }
  // Whether this agent is heard: it is its node's newest incarnation, and the node is not lost.
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
  // Whether any rank's output waits, as the agents last said. Takes time for each node.
  bool output_waits() const;
  // Whether the node is left out for a while because it was lost too often; all nodes that are.
  bool excluded(NodeId node, TimePoint now) const;
  std::vector<NodeId> excluded(TimePoint now) const;
  std::optional<ConnectionId> connection_of(NodeId node) const { return at(node).connection; }

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(nodes_, forgiven_, slept_, half_gone_, leftovers_, named_, left_behind_, releasing_);
  }
  // These fields were read: what follows from them follows. False if no fleet has them.
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
    std::string killed_for{};               // why the fleet killed the agent; empty: it did not
    std::optional<TimePoint> ends_since{};  // when the first of its process and its connection ended
    std::vector<TimePoint> losses{};        // of agents that had joined
    bool output_waits = false;              // some rank's, as the agent last said

    // Less the time that the launcher slept, so that the earliest is the one whose silence ends first.
    TimePoint silent_since() const { return last_heard - slept; }
  };
  struct HalfGone {
    AgentId agent;
    TimePoint since;
  };
  // Its node, if that is known, and its pid: two hosts may have the same pid.
  using Process = std::pair<std::optional<NodeId>, std::int32_t>;
  struct Leftovers {  // while the end of lost agents' leftovers is waited for
    TimePoint since;  // the newest loss
    std::optional<TimePoint> look_at;
    bool told = false;            // LeftoversRemain was told
    std::set<Process> told_of{};  // also from before the newest loss
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
  std::set<std::pair<TimePoint, NodeId>> order_;  // nodes that are listened for, by silent_since()
  TimePoint forgiven_;                            // silence before this moment does not count
  Duration slept_{};                              // time in all in which the launcher listened to nobody
  std::deque<HalfGone> half_gone_;
  std::optional<Leftovers> leftovers_;
  // Leftovers for whose end nobody waits: their pids, by the node whose agent has named them; and those that
  // were left behind.
  std::map<NodeId, std::set<std::int32_t>> named_;
  std::set<Process> left_behind_;
  bool releasing_ = false;
  Outcome outcome_;  // of the event at hand
};

}  // namespace muster::launcher
