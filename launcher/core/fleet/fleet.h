// The agents of a job: who is there, in which incarnation, who may speak, when one counts as lost, what is
// left of it.
//
// Nodes come and go by number; nobody fixes how many. An agent has a process and a connection: when one of
// them has ended and the other has not, the agent is half gone, and is not waited for long. A silent agent is
// killed. What lost agents leave is looked for until it is gone, killed when it stays, and named when it
// stays even then. Which nodes take part in an attempt is the job's business (job.h). Each event costs at
// most the logarithm of the number of nodes. One thread; performs nothing, reads no clock.
#pragma once

#include <deque>
#include <list>
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
  Duration silence{};     // an agent that says nothing for so long is lost
  std::string version{};  // of Muster: an agent of another cannot be used
  ExclusionLimits exclusion{};
};

class Fleet {
 public:
  // For the other half of an agent's end, of which one is its process's and one its connection's.
  static constexpr Duration kHalfGoneLimit = std::chrono::seconds(1);
  // The guardian of a dead agent clears up within milliseconds; what outlives it this long has lost its
  // guardian too, and is killed.
  static constexpr Duration kLeftoverLimit = std::chrono::seconds(2);
  // What still lives so long after that cannot be killed, and is looked at less often.
  static constexpr Duration kUnkillableLimit = std::chrono::seconds(1);
  static constexpr Duration kCheckPeriod = std::chrono::milliseconds(20);
  static constexpr Duration kUnkillableCheckPeriod = std::chrono::seconds(1);

  struct Outcome {
    FleetDecisions decisions;
    std::vector<FleetNews> news;
  };
  explicit Fleet(FleetLimits limits) : limits_(std::move(limits)) {}

  // Of an AgentConnected, a ConnectionClosed, a ProcessEnded, an AgentSaid or a LeftoversSeen.
  template <class Event>
  Outcome on(const Event& event, TimePoint now) {
    handle(event, now);
    return std::exchange(outcome_, {});
  }
  // What is due. `noticed_late`: nobody could be heard meanwhile, so that no silence counts.
  Outcome on_time(TimePoint now, bool noticed_late);
  std::optional<TimePoint> next_deadline() const;
  // Nobody was listened to for so long, which counts for no silence.
  void slept(Duration time) { slept_ += time; }

  // What a job wants of it: a node that it may use; an agent there; to be rid of that, which then is a loss
  // since `at`; to let all go, so that no end is a loss from then on.
  void add(NodeId node);
  FleetDecisions hire(NodeId node, TimePoint now, std::string reason);
  FleetDecisions drop(NodeId node, TimePoint at, const std::string& why, TimePoint now);
  void release() { releasing_ = true; }

  // Questions.
  enum class Presence { kAbsent, kComing, kThere };
  Presence presence(NodeId node) const { return at(node).presence; }
  bool alive(NodeId node) const { return presence(node) != Presence::kAbsent; }
  // Whether this agent, which is no older one of its node, may speak.
  bool listens_to(AgentId agent) const;
  std::vector<NodeId> nodes() const;
  const std::set<NodeId>& absent() const { return absent_; }
  std::size_t size() const { return nodes_.size(); }
  std::size_t alive_count() const { return nodes_.size() - absent_.size(); }
  std::size_t there_count() const { return there_count_; }
  // Left out for a while, because they were lost too often.
  bool excluded(NodeId node, TimePoint now) const;
  std::vector<NodeId> excluded(TimePoint now) const;
  std::optional<ConnectionId> connection_of(NodeId node) const { return at(node).connection; }

  // What a journal keeps of it (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(nodes_, absent_, often_lost_, there_count_, process_count_, order_, forgiven_, slept_, half_gone_,
            leftovers_, named_, releasing_);
    for (auto place = order_.begin(); place != order_.end(); ++place) at(*place).in_order = place;
  }

 private:
  struct Node {
    Presence presence = Presence::kAbsent;
    Incarnation incarnation;  // of the newest agent
    bool process = false;     // started, and not known to have ended
    std::optional<ConnectionId> connection{};
    TimePoint last_heard;
    Duration slept{};                        // of the fleet, until then
    std::list<NodeId>::iterator in_order{};  // of last_heard, while it is alive
    std::string how{};                       // its process ended
    std::string killed_for{};                // by us, if it was
    std::optional<TimePoint> ends_since{};   // when the first of its process and its connection ended
    std::vector<TimePoint> losses{};

    template <class Archive>
    void fields(Archive& archive) {  // but for in_order, which is a place
      archive(presence, incarnation, process, connection, last_heard, slept, how, killed_for, losses);
    }
  };
  struct HalfGone {
    AgentId agent;
    TimePoint since;
  };
  struct Leftovers {  // that are waited for
    TimePoint since;
    std::optional<TimePoint> look_at;
    bool told = false;  // that they cannot be killed
  };

  void handle(const AgentConnected& event, TimePoint now);
  void handle(const ConnectionClosed& event, TimePoint now);
  void handle(const ProcessEnded& event, TimePoint now);
  void handle(const AgentSaid& event, TimePoint now);
  void handle(const LeftoversSeen& event, TimePoint now);

  Node& at(NodeId node) { return nodes_.at(node); }
  const Node& at(NodeId node) const { return nodes_.at(node); }
  // Of the newest agent of its node, which is alive; else nullptr.
  Node* find(AgentId agent);
  bool is_half_gone(const Node& node) const { return node.process != node.connection.has_value(); }
  void greet(AgentId agent, Node& node, const wire::Hello& hello);
  void kill_for(AgentId agent, Node& node, std::string why);
  void lose(NodeId node, std::string how, TimePoint now);
  void forget(NodeId node, TimePoint lost_at);
  void expect_leftovers(TimePoint now, TimePoint look_at);
  TimePoint silent_at(const Node& node) const;
  void mind_half_gone(TimePoint now);
  void mind_silence(TimePoint now);
  void mind_leftovers(TimePoint now);
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
  std::list<NodeId> order_;  // of those alive, by when they were last heard
  TimePoint forgiven_;       // no silence counts before
  Duration slept_{};         // in all
  std::deque<HalfGone> half_gone_;
  std::optional<Leftovers> leftovers_;
  std::set<std::int32_t> named_;  // left behind by an agent that said so: nobody waits for these processes
  bool releasing_ = false;
  Outcome outcome_;  // of the event at hand
};

}  // namespace muster::launcher
