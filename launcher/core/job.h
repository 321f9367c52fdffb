// The job as the launcher sees it: which agents there are, what the attempt is doing, what happens next.
//
// Decisions only: events come in with the time, and the actions that they lead to go out, each with its
// reason. What ended an attempt is judged by verdict.h when its last worker is gone; a lost node is replaced,
// and the attempt repeated, while restarts are left. One thread; performs nothing, reads no clock.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/wire/messages.h"
#include "launcher/core/plan.h"
#include "launcher/core/reactions.h"
#include "launcher/core/verdict.h"

namespace muster::launcher {

// ---- Events ----
struct Began {};    // once, first
struct AgentSaid {  // WorkerExited.at_ns has been translated to the launcher's clock
  NodeId node;
  Attempt attempt;
  wire::ToLauncher message;
};
struct AgentEnded {  // its process or its connection
  NodeId node;
  std::string how;
};
struct StraysEnded {};  // no process of a lost or killed agent is left on this machine
struct AttemptBegun {   // answers BeginAttempt
  Attempt attempt;
  std::optional<std::uint64_t> resume_step;
};
struct AttemptDenied {  // answers BeginAttempt: the checkpoint directory cannot be used, or belongs to a
                        // newer launch
  Refusal refusal;
};
struct Interrupted {
  int signal = 0;
};
struct TimePassed {};  // next_deadline() has come
using Event = std::variant<Began, AgentSaid, AgentEnded, StraysEnded, AttemptBegun, AttemptDenied,
                           Interrupted, TimePassed>;

// ---- Actions ----
struct StartAgent {
  NodeId node;
};
struct KillAgent {  // by SIGKILL; its end is not told, only the end of all that it leaves (StraysEnded)
  NodeId node;
};
struct BeginAttempt {  // take its number; answered by AttemptBegun or AttemptDenied
  std::int32_t restart_count = 0;
};
struct Send {
  NodeId node;
  wire::ToAgent message;
};
struct Tell {  // the user, in one line
  std::string text;
};
struct Finish {};
struct Decision {
  std::variant<StartAgent, KillAgent, BeginAttempt, Send, Tell, Finish> action;
  std::string reason;
};
using Decisions = std::vector<Decision>;

// What is remembered of each attempt, for the report.
struct AttemptHistory {
  Attempt attempt;
  std::optional<std::int64_t> resumed_step;  // said by rank 0
  std::optional<std::int64_t> last_step;     // the highest that any rank reported
  std::optional<std::int64_t> committed_step;
  std::optional<std::int64_t> repeated_steps;
  std::optional<Verdict> verdict;  // empty while it runs
};

class Job {
 public:
  explicit Job(Plan plan) : plan_(std::move(plan)), nodes_(plan_.nodes.size()) {}
  Decisions on(const Event& event, TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  Phase phase() const { return phase_; }
  Attempt attempt() const { return attempt_; }
  std::int32_t restart_count() const { return restart_count_; }
  const std::vector<AttemptHistory>& history() const { return history_; }
  const Verdict& verdict() const { return verdict_; }  // once leaving or done
  std::string waiting_for() const;                     // for a user who sees nothing happen yet

 private:
  struct Node {
    enum class State { kAbsent, kStarting, kJoined, kLeft } state = State::kAbsent;
    TimePoint last_heard;
    bool prepared = false;
    bool has_workers = false;  // told to start some, and not yet empty
  };

  void handle(const Began& event, TimePoint now);
  void handle(const AgentSaid& event, TimePoint now);
  void handle(const AgentEnded& event, TimePoint now);
  void handle(const StraysEnded& event, TimePoint now);
  void handle(const AttemptBegun& event, TimePoint now);
  void handle(const AttemptDenied& event, TimePoint now);
  void handle(const Interrupted& event, TimePoint now);
  void handle(const TimePassed& event, TimePoint now);

  void hear(NodeId id, const wire::Hello& hello, TimePoint now);
  void hear(NodeId id, const wire::AttemptPrepared& prepared, TimePoint now);
  void hear(NodeId id, const wire::AttemptRefused& refused, TimePoint now);
  void hear(NodeId id, const wire::WorkerExited& exited, TimePoint now);
  void hear(NodeId id, const wire::WorkersGone& gone, TimePoint now);
  void hear(NodeId id, const wire::WorkerReported& reported, TimePoint now);
  template <class Other>
  void hear(NodeId, const Other&, TimePoint) {}  // output, pongs and pids decide nothing

  Reaction reaction(Occurrence occurrence) const;
  void react(Occurrence occurrence, TimePoint now);
  void advance(TimePoint now);
  void gather(TimePoint now);
  void start_workers();
  void stop_workers(TimePoint now);
  void hurry(TimePoint now);
  void conclude(TimePoint now);
  void restart(TimePoint now);
  void leave(TimePoint now);
  void lose(NodeId id, TimePoint at, std::string how, TimePoint now);
  void kill_node(NodeId id, TimePoint at, const std::string& how, TimePoint now);
  void kill_late_nodes(TimePoint now);
  bool attempt_ran() const;
  std::string restart_text() const;

  Node& node(NodeId id) { return nodes_.at(static_cast<std::size_t>(id.value())); }
  bool owns(NodeId id, Rank rank) const;
  bool any_workers() const;
  bool all_in(Node::State state) const;
  void decide(decltype(Decision::action) action, std::string reason) {
    decisions_.push_back({std::move(action), std::move(reason)});
  }

  Plan plan_;
  std::vector<Node> nodes_;
  Phase phase_ = Phase::kGathering;
  Attempt attempt_;
  std::optional<std::uint64_t> resume_step_;
  std::int32_t store_port_ = 0;
  std::int32_t restart_count_ = 0;
  AttemptFacts facts_;  // of this attempt
  bool strays_ = false;
  std::optional<TimePoint> phase_deadline_;  // of stopping and leaving
  std::vector<AttemptHistory> history_;
  Verdict verdict_;
  std::optional<Verdict> repeated_;          // why this attempt is a restart
  std::optional<int> restart_forbidden_by_;  // the user's signal while a failed attempt was being stopped
  Decisions decisions_;                      // of the event at hand
};

}  // namespace muster::launcher
