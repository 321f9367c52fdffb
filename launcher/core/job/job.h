// The job as the launcher sees it: which agents there are, what the attempt is doing, what happens next.
//
// Decisions only: events come in with the time, and the actions that they lead to go out, each with its
// reason. Its parts decide by themselves: who takes part (placement.h), whose fault it was (verdict.h),
// whether and when to try again (restart_policy.h), who hangs (hang.h), who is slow (stragglers.h), who
// can leave on notice (preemption.h). One thread; performs nothing, reads no clock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/core/job/attempt_history.h"
#include "launcher/core/job/job_events.h"
#include "launcher/core/job/preemption.h"
#include "launcher/core/job/reactions.h"
#include "launcher/core/job/restart_policy.h"
#include "launcher/core/job/roster.h"
#include "launcher/core/job/stragglers.h"
#include "launcher/core/settings/plan.h"

namespace muster::launcher {

class Job {
 public:
  explicit Job(Plan plan);
  Decisions on(const Event& event, TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  Phase phase() const { return phase_; }
  Attempt attempt() const { return attempt_; }
  std::int32_t restart_count() const { return restart_count_; }
  const std::vector<NodePlan>& members() const { return members_; }  // of the attempt, with their ranks
  const std::vector<AttemptHistory>& history() const { return history_; }
  const Verdict& verdict() const { return verdict_; }  // once leaving or done
  std::string waiting_for(TimePoint now) const;        // for a user who sees nothing happen yet

 private:
  // Events (job.cc).
  void handle(const Began& event, TimePoint now);
  void handle(const AgentSaid& event, TimePoint now);
  void handle(const AgentEnded& event, TimePoint now);
  void handle(const StraysEnded& event, TimePoint now);
  void handle(const StraysRemain& event, TimePoint now);
  void handle(const AttemptBegun& event, TimePoint now);
  void handle(const AttemptDenied& event, TimePoint now);
  void handle(const CheckpointFound& event, TimePoint now);
  void handle(const Interrupted& event, TimePoint now);
  void handle(const Cancelled& event, TimePoint now);
  void handle(const TimePassed& event, TimePoint now);

  void hear(NodeId id, const wire::Hello& hello, TimePoint now);
  void hear(NodeId id, const wire::AttemptPrepared& prepared, TimePoint now);
  void hear(NodeId id, const wire::AttemptRefused& refused, TimePoint now);
  void hear(NodeId id, const wire::WorkersStarted& started, TimePoint now);
  void hear(NodeId id, const wire::WorkerExited& exited, TimePoint now);
  void hear(NodeId id, const wire::WorkersGone& gone, TimePoint now);
  void hear(NodeId id, const wire::WorkerReported& reported, TimePoint now);
  void hear(NodeId id, const wire::WorkerStalled& stalled, TimePoint now);
  void hear(NodeId id, const wire::WorkerStacks& stacks, TimePoint now);
  void hear(NodeId id, const wire::WorkerUnkillable& unkillable, TimePoint now);
  void hear(NodeId id, const wire::LeftoversUnkillable& leftovers, TimePoint now);
  void hear(NodeId id, const wire::AgentNotice& notice, TimePoint now);
  void watch_pace(const wire::WorkerReported& reported);
  void hear(NodeId id, const wire::Pong& pong, TimePoint now);
  template <class Other>
  void hear(NodeId, const Other&, TimePoint) {}  // output decides nothing

  Reaction reaction(Occurrence occurrence) const;
  void react(Occurrence occurrence, TimePoint now);
  bool can_save() const;
  void interrupt(const StopWish& wish, TimePoint now);
  void pass_on(int signal);
  void notice(const StopWish& wish, Duration grace, TimePoint now);
  std::string how_to_hurry() const;
  void mind_time_limit(TimePoint now);
  void mind_phase_deadline(TimePoint now);

  // What follows from them (job_attempt.cc).
  void advance(TimePoint now);
  void clear_up(TimePoint now);
  void gather(TimePoint now);
  void start_absent_agents(TimePoint now);
  void start_workers(TimePoint now);
  void stand_by(NodeId id);
  void ask_for_stacks(std::string reason);
  void dump(TimePoint now);
  void await_culprit(TimePoint now);
  void stop_workers(TimePoint now);
  void hurry(TimePoint now);
  void give_up_on_late_nodes(TimePoint now);
  void judge_attempt();
  void conclude(TimePoint now);
  bool may_have_saved() const;
  bool recover(TimePoint now);
  bool may_start_later() const;
  void restart(const RestartDecision& decision, TimePoint now);
  void leave(TimePoint now);
  void tell_loss();
  void abandon(TimePoint now, std::string reason);
  void lose(NodeId id, TimePoint at, const std::string& how, TimePoint now);
  void kill_node(NodeId id, TimePoint at, const std::string& how, TimePoint now);
  void kill_late_nodes(TimePoint now);
  bool attempt_ran() const;
  std::string restart_text(TimePoint now) const;
  void tell_wait(TimePoint now);

  const NodePlan* member(NodeId id) const;  // nullptr: it takes no part in the attempt
  bool owns(NodeId id, Rank rank) const;
  void name_leftovers(const std::vector<Leftover>& left, std::optional<NodeId> node);
  void name_leftover(const std::string& what, std::optional<NodeId> node);
  std::size_t living_worker_count() const;
  bool all_ranks_ended() const { return facts_.world_size > 0 && living_worker_count() == 0; }
  Placement placement(TimePoint now) const;
  void decide(decltype(Decision::action) action, std::string reason) {
    decisions_.push_back({std::move(action), std::move(reason)});
  }
  void record(std::string event, std::string text, std::optional<NodeId> node = {},
              std::optional<Rank> rank = {}) {
    decide(Record{std::move(event), rank, node, std::move(text)}, "for the record");
  }

  Plan plan_;
  Size size_;
  Roster roster_;
  RestartPolicy policy_;
  std::vector<NodePlan> members_;
  Phase phase_ = Phase::kGathering;
  Attempt attempt_;
  std::optional<std::uint64_t> resume_step_;
  std::int32_t store_port_ = 0;
  std::int32_t restart_count_ = 0;
  AttemptFacts facts_;  // of this attempt
  Stragglers stragglers_;
  Preemption preemption_;
  bool strays_ = false;
  bool told_executed_ = false;  // why ranks were not started warm
  bool asked_for_stacks_ = false;
  bool looked_for_checkpoint_ = false;
  bool progressed_ = false;  // a checkpoint was committed since the last failure
  TimePoint began_;
  TimePoint not_before_;                     // the back-off's end
  TimePoint kill_from_;                      // the grace's end, once stopping
  std::optional<TimePoint> phase_deadline_;  // and of a wait for the culprit
  bool killed_late_ = false;
  bool time_noticed_ = false;
  std::int32_t interrupt_count_ = 0;
  std::vector<AttemptHistory> history_;
  Verdict verdict_;
  std::optional<Verdict> repeated_;               // why this attempt is a restart
  std::optional<StopWish> restart_forbidden_by_;  // while a failed attempt was being stopped
  bool time_is_up_ = false;
  Decisions decisions_;  // of the event at hand
};

}  // namespace muster::launcher
