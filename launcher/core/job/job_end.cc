// The last part of Job: how an attempt ends, and what follows: another one, or the end of the job.
#include <algorithm>
#include <utility>

#include "launcher/core/job/job.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

using State = Roster::Agent::State;

constexpr Duration kLeaveLimit = std::chrono::seconds(5);
// Of killed agents, for what they leave to end.
constexpr Duration kStrayMargin = std::chrono::seconds(5);

}  // namespace

void Job::judge_attempt() {
  facts_.notice_given = preemption_.given();
  facts_.notice = preemption_.wish();
  facts_.committed_on_notice = preemption_.has_committed();
  if (facts_.world_size == 0) facts_.world_size = plan_.world_size();
  verdict_ = judge(facts_);
  if (!history_.empty() && !history_.back().verdict) history_.back().verdict = verdict_;
  record("attempt_ended", verdict_.cause, verdict_.node, verdict_.rank);
}

// The last worker of the attempt is gone.
void Job::conclude(TimePoint now) {
  if (may_have_saved()) return decide(LookForCheckpoint{}, "they left on notice, and told of no commit");
  judge_attempt();
  if ((verdict_.restart_may_help() || may_start_later()) && recover(now)) return;
  const bool cut_short =
      verdict_.kind == Verdict::Kind::kRefused || verdict_.kind == Verdict::Kind::kInterrupted ||
      verdict_.kind == Verdict::Kind::kCancelled || verdict_.kind == Verdict::Kind::kTimeLimit;
  if (repeated_ && cut_short && !attempt_ran()) verdict_ = ended_after(*repeated_, verdict_);
  leave(now);
}

// What workers report may be lost with them, and whether the job is started again depends on this.
bool Job::may_have_saved() const {
  return preemption_.given() && !preemption_.has_committed() && !looked_for_checkpoint_ &&
         !plan_.job.checkpoint_directory.empty();
}

void Job::handle(const CheckpointFound& event, TimePoint now) {
  looked_for_checkpoint_ = true;
  preemption_.found(event.step);
  advance(now);
}

// Starts anew, if that is allowed; else the verdict is final.
bool Job::recover(TimePoint now) {
  const RestartDecision decision =
      policy_.on_failure(as_failure(verdict_, std::exchange(progressed_, false)), now);
  switch (decision.kind) {
    case RestartDecision::Kind::kBudgetIsSpent: verdict_.gave_up = Verdict::GaveUp::kBudget; return false;
    case RestartDecision::Kind::kNoProgress:
      verdict_.gave_up = Verdict::GaveUp::kNoProgress;
      verdict_.final_because = decision.reason;
      return false;
    case RestartDecision::Kind::kRestart: break;
  }
  if (restart_forbidden_by_) {
    verdict_ = stopped_after(verdict_, *restart_forbidden_by_);
    return false;
  }
  if (preemption_.given() && preemption_.wish().signal != 0) {
    verdict_ = stopped_after(verdict_, preemption_.wish());
    return false;
  }
  if (time_is_up_ || preemption_.given()) {
    verdict_ = out_of_time_after(verdict_);
    return false;
  }
  restart(decision, now);
  return true;
}

// What a restart was refused for may pass, such as a full disk; the first attempt's user is there to mend it.
bool Job::may_start_later() const {
  return verdict_.kind == Verdict::Kind::kRefused && facts_.refusal->kind == Refusal::Kind::kCannotStart &&
         restart_count_ > 0;
}

// A worker that cannot be executed keeps the attempt from running; one that is fenced has run.
bool Job::attempt_ran() const {
  return facts_.started && !(facts_.refusal && facts_.refusal->kind == Refusal::Kind::kCannotStart);
}

void Job::restart(const RestartDecision& decision, TimePoint now) {
  ++restart_count_;
  const std::string cause = verdict_.cause_and_step();
  if (verdict_.kind != Verdict::Kind::kRefused) {  // else what made the restart necessary is still the cause
    repeated_ = verdict_;
    repeated_->cause = cause;
  }
  facts_ = {};
  preemption_ = {};
  not_before_ = now + decision.delay;
  record("restart", fmt::format("{}, after {:.3f} s", decision.reason, in_seconds(decision.delay)));
  if (decision.delay > Duration::zero()) {
    decide(Tell{fmt::format("{}; it is tried again in {:.1f} s", cause, in_seconds(decision.delay))},
           "nothing was gained since the last restart");
  }
  gather(now);
}

void Job::leave(TimePoint now) {
  tell_loss();
  phase_ = Phase::kLeaving;
  phase_deadline_ = now + kLeaveLimit;
  killed_late_ = false;
  record("job_ended", verdict_.cause, verdict_.node, verdict_.rank);
  for (const NodeId id : roster_.nodes()) {
    Roster::Agent& leaving = roster_.at(id);
    if (leaving.state == State::kAbsent) leaving.state = State::kLeft;
    if (leaving.state == State::kJoined) decide(Send{id, wire::Leave{}}, "the job is over");
    if (leaving.state == State::kStarting) kill_node(id, now, "the job is over before the agent joined", now);
  }
  advance(now);
}

// Who stops a job wants to know what that costs.
void Job::tell_loss() {
  const bool stopped = verdict_.kind == Verdict::Kind::kInterrupted ||
                       verdict_.kind == Verdict::Kind::kCancelled ||
                       verdict_.kind == Verdict::Kind::kTimeLimit;
  const std::string loss = stopped ? loss_text(history_) : "";
  if (!loss.empty()) verdict_.cause += "; " + loss;
}

// Without waiting for anything: guardians clear up what the agents leave.
void Job::abandon(TimePoint now, std::string reason) {
  if (phase_ < Phase::kLeaving) {
    judge_attempt();
    if (restart_forbidden_by_ && verdict_.restart_may_help())
      verdict_ = stopped_after(verdict_, *restart_forbidden_by_);
    tell_loss();
    record("job_ended", verdict_.cause, verdict_.node, verdict_.rank);
  }
  phase_ = Phase::kDone;
  phase_deadline_.reset();
  for (const NodeId id : roster_.nodes()) {
    if (!roster_.at(id).alive()) continue;
    decide(KillAgent{id}, reason);
    roster_.lost(id, /*expected=*/true, now);
  }
  decide(Finish{}, std::move(reason));
}

// First the agents that are late are killed, and their guardians clear up. What still lives after that cannot
// be killed.
void Job::give_up_on_late_nodes(TimePoint now) {
  if (killed_late_) return abandon(now, "processes of the job cannot be killed");
  killed_late_ = true;
  phase_deadline_ = now + kStrayMargin;
  if (!facts_.unkillable.empty()) return abandon(now, "a worker cannot be killed");
  kill_late_nodes(now);
}

void Job::kill_late_nodes(TimePoint now) {
  for (const NodeId id : roster_.nodes()) {
    if (!roster_.at(id).alive()) continue;
    if (phase_ == Phase::kLeaving || roster_.at(id).has_workers)
      kill_node(id, now, "its agent did not finish in time", now);
  }
}

void Job::kill_node(NodeId id, TimePoint at, const std::string& how, TimePoint now) {
  decide(KillAgent{id}, how);
  lose(id, at, how, now);
}

void Job::lose(NodeId id, TimePoint at, const std::string& how, TimePoint now) {
  if (!roster_.at(id).alive()) return;
  // While leaving, agents are meant to end.
  const bool expected = phase_ >= Phase::kLeaving;
  roster_.lost(id, expected, at);
  strays_ = true;
  if (!expected) record("node_lost", how, id);
  const bool needed =
      phase_ == Phase::kGathering ? roster_.alive_count() < size_.min_nodes : member(id) != nullptr;
  if (!expected && needed) facts_.losses.push_back({id, at, how});
  react(expected || needed ? Occurrence::kLost : Occurrence::kSpareLost, now);
}

}  // namespace muster::launcher
