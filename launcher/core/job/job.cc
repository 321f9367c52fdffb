#include "launcher/core/job/job.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <utility>

#include "common/base/check.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

using State = Roster::Agent::State;

constexpr Duration kCulpritPatience = std::chrono::milliseconds(300);

RestartLimits restart_limits(const Plan& plan) {
  return {.max_restarts = plan.job.max_restarts,
          .window = plan.recovery.restart_window,
          .delay = plan.recovery.restart_delay,
          .no_progress_limit = plan.recovery.no_progress_limit,
          .seed = std::hash<std::string>{}(plan.job.job_id)};
}

void take_earlier(std::optional<TimePoint>& value, std::optional<TimePoint> other) {
  if (other && (!value || *other < *value)) value = other;
}

}  // namespace

Job::Job(Plan plan)
    : plan_(std::move(plan)),
      size_{.min_nodes = plan_.min_nodes.value_or(static_cast<std::int32_t>(plan_.nodes.size())),
            .max_nodes = static_cast<std::int32_t>(plan_.nodes.size()),
            .workers_per_node = plan_.nodes.front().worker_count},
      roster_(plan_.agent_count(),
              {.window = plan_.recovery.restart_window, .exclusion = plan_.recovery.node_exclusion}),
      policy_(restart_limits(plan_)) {}

Decisions Job::on(const Event& event, TimePoint now) {
  std::visit([this, now](const auto& what) { handle(what, now); }, event);
  return std::exchange(decisions_, {});
}

std::optional<TimePoint> Job::next_deadline() const {
  if (phase_ == Phase::kDone) return std::nullopt;
  std::optional<TimePoint> next = phase_deadline_;
  take_earlier(next, roster_.next_silence(plan_.job.limits.silence_limit));
  if (plan_.recovery.time_limit && !time_is_up_ && phase_ != Phase::kLeaving) {
    const Duration limit = *plan_.recovery.time_limit;
    take_earlier(
        next, time_noticed_ ? began_ + limit : notice_time(began_, limit, plan_.recovery.preemption_grace));
  }
  return next;
}

Reaction Job::reaction(Occurrence occurrence) const {
  return kReactions[static_cast<std::size_t>(occurrence)][static_cast<std::size_t>(phase_)];
}

// The occurrence itself has been noted by its handler.
void Job::react(Occurrence occurrence, TimePoint now) {
  switch (reaction(occurrence)) {
    case Reaction::kUndecided:
    case Reaction::kIgnore: break;
    case Reaction::kNote: advance(now); break;
    case Reaction::kAwait: await_culprit(now); break;
    case Reaction::kDump: dump(now); break;
    case Reaction::kPreempt: phase_ = Phase::kPreempting; break;
    case Reaction::kStop: stop_workers(now); break;
    case Reaction::kHurry: hurry(now); break;
  }
}

void Job::handle(const Began&, TimePoint now) {
  began_ = not_before_ = now;
  gather(now);
}

void Job::handle(const AgentSaid& event, TimePoint now) {
  Roster::Agent& from = roster_.at(event.node);
  if (!from.alive()) return;
  from.last_heard = now;
  // Greetings and notices belong to no attempt; everything else that matters here does.
  const bool free = std::holds_alternative<wire::Hello>(event.message) ||
                    std::holds_alternative<wire::AgentNotice>(event.message);
  if (!free && event.attempt != attempt_) return;
  std::visit([&](const auto& message) { hear(event.node, message, now); }, event.message);
}

void Job::hear(NodeId id, const wire::Hello&, TimePoint now) {
  if (roster_.at(id).state != State::kStarting) return;
  roster_.at(id).state = State::kJoined;
  decide(Send{id, wire::Welcome{id, plan_.job}}, "the agent greeted");
  record("agent_joined", "", id);
  stand_by(id);
  react(Occurrence::kJoined, now);
}

void Job::hear(NodeId id, const wire::AttemptPrepared& prepared, TimePoint now) {
  if (reaction(Occurrence::kPrepared) == Reaction::kIgnore) return;
  roster_.at(id).prepared = true;
  if (id == members_.front().node) store_port_ = prepared.store_port;
  react(Occurrence::kPrepared, now);
}

void Job::hear(NodeId id, const wire::AttemptRefused& refused, TimePoint now) {
  if (reaction(Occurrence::kRefused) == Reaction::kIgnore) return;
  record("attempt_refused", refused.message, id);
  // It could when the job began: something is wrong with that node, and another may do.
  facts_.refused_by_node = restart_count_ > 0;
  if (facts_.refused_by_node) return kill_node(id, now, "it refused the attempt: " + refused.message, now);
  if (!facts_.refusal)
    facts_.refusal = Refusal{Refusal::Kind::kCannotStart, id, refused.exit_code, refused.message};
  react(Occurrence::kRefused, now);
}

void Job::hear(NodeId id, const wire::WorkersStarted& started, TimePoint now) {
  if (facts_.started) facts_.started = now;
  std::string text = fmt::format("{} workers", started.pids.size());
  if (started.warm_count > 0) text += fmt::format(", {} of them forked", started.warm_count);
  if (!started.executed_because.empty()) {
    text += "; executed because " + started.executed_because;
    if (!std::exchange(told_executed_, true))
      decide(Tell{fmt::format("node{} executes its ranks and does not fork them: {}", id,
                              started.executed_because)},
             "a warm start was wanted");
  }
  if (const NodePlan* started_on = member(id))
    record("workers_started", std::move(text), id, started_on->first_rank);
}

void Job::hear(NodeId id, const wire::WorkerExited& exited, TimePoint now) {
  const bool seen = std::ranges::find(facts_.ends, exited.rank, &WorkerEnd::rank) != facts_.ends.end();
  if (reaction(Occurrence::kWorkerEnded) == Reaction::kIgnore || seen || !owns(id, exited.rank)) return;
  WorkerEnd end = worker_end(id, exited, phase_ == Phase::kStopping && now >= kill_from_);
  const bool left_on_notice = preemption_.given() && end.signal == 0 && end.exit_code == kExitPreempted;
  const bool failed = end.failed() && !end.after_stop && !left_on_notice;
  const Occurrence what = !failed                  ? Occurrence::kWorkerEnded
                          : end.is_about_another() ? Occurrence::kPeerMissed
                                                   : Occurrence::kWorkerFailed;
  record("worker_exited", end_text(end), id, end.rank);
  facts_.ends.push_back(std::move(end));
  react(what, now);
}

// A rank that leaves main() closes its connections first: who misses it there may end before it, and to stop
// it now would be to lose how it ended. Its end, or that of the patience, stops the attempt.
void Job::await_culprit(TimePoint now) {
  if (!phase_deadline_) phase_deadline_ = now + kCulpritPatience;
  advance(now);
}

void Job::hear(NodeId id, const wire::WorkersGone&, TimePoint now) {
  if (reaction(Occurrence::kNodeEmptied) == Reaction::kIgnore) return;
  roster_.at(id).has_workers = false;
  react(Occurrence::kNodeEmptied, now);
}

void Job::hear(NodeId id, const wire::WorkerReported& reported, TimePoint now) {
  using enum wire::ReportKind;
  if (history_.empty() || !owns(id, reported.rank)) return;
  note_report(history_, reported);
  if (reported.kind == kHello) preemption_.hello(reported.rank, reported.text);
  // Once it is decided that the attempt hangs, this is what its end is judged by: a worker that was woken to
  // hear the stop takes steps again.
  if (reported.kind == kStep || reported.kind == kHeartbeat) {
    if (!facts_.hangs) facts_.hang.moved(reported.rank, reported.step);
    if (facts_.hang.stalls().empty()) asked_for_stacks_ = false;  // it was no hang, and the next is told anew
    if (reported.step >= 0) {  // a heartbeat may come before the first step
      std::int64_t& newest = facts_.steps.try_emplace(reported.rank, reported.step).first->second;
      newest = std::max(newest, reported.step);
      // A program that begins to train reports the step that it goes on from.
      const auto resumed = static_cast<std::int64_t>(resume_step_.value_or(0));
      if (reported.step > history_.back().resumed_step.value_or(resumed)) facts_.stepped = true;
    }
  }
  if (reported.kind == kCommitted) {
    progressed_ = true;
    preemption_.committed();
  }
  if (reported.kind == kStep && phase_ == Phase::kRunning) watch_pace(reported);
  if (reported.kind == kSaving && phase_ == Phase::kPreempting)
    decide(Tell{fmt::format("saving step {}{}", reported.step, how_to_hurry())}, "all ranks agree on it");
  for (const wire::ReportKind kind : {kResumed, kCommitted, kSaving, kPreempted, kFenced}) {
    if (reported.kind == kind)
      record(std::string(name_of(kind)), fmt::format("step {}", reported.step), id, reported.rank);
  }
  if (reported.kind != kFenced || reaction(Occurrence::kFenced) == Reaction::kIgnore) return;
  if (!facts_.refusal) facts_.refusal = Refusal{Refusal::Kind::kFenced, id, kExitInternal, reported.text};
  react(Occurrence::kFenced, now);
}

void Job::watch_pace(const wire::WorkerReported& reported) {
  for (const auto& change : stragglers_.stepped(reported.rank, from_ns(reported.busy_ns))) {
    const NodeId node = std::ranges::find_if(members_, [&](const NodePlan& each) {
                          return owns(each.node, change.rank);
                        })->node;
    const std::string text = fmt::format("is {} than the others: {} a step against {}",
                                         change.slower ? "slower" : "no longer slower",
                                         in_milliseconds(change.busy), in_milliseconds(change.usual));
    decide(Tell{fmt::format("rank {} (node{}) {}", change.rank, node, text)},
           "the others wait for it in every step");
    record(change.slower ? "straggler" : "straggler_over", text, node, change.rank);
    note_pace(history_.back(), {change.rank, node, reported.step, change.busy, change.usual}, change.slower);
  }
}

void Job::hear(NodeId id, const wire::WorkerStalled& stalled, TimePoint now) {
  if (!owns(id, stalled.rank) || reaction(Occurrence::kStalled) == Reaction::kIgnore) return;
  facts_.hang.add({.rank = stalled.rank,
                   .node = id,
                   .stopped = stalled.stopped,
                   .what = stalled.what,
                   .section = stalled.section,
                   .step = stalled.step,
                   .since = TimePoint(from_ns(stalled.since_ns))});
  record(stalled.hard ? "worker_hangs" : "worker_stalls", stalled.what, id, stalled.rank);
  if (stalled.hard) return react(Occurrence::kStalled, now);
  if (asked_for_stacks_) return;  // one line is enough: the others wait for this one, as a rule
  decide(Tell{fmt::format("rank {} (node{}) {}", stalled.rank, id, stalled.what)}, "it may hang");
  ask_for_stacks("a worker may hang");
}

void Job::hear(NodeId id, const wire::WorkerStacks& stacks, TimePoint now) {
  if (phase_ != Phase::kDumping || !owns(id, stacks.rank)) return;
  facts_.hang.add_stacks(stacks.rank, id, stacks.text);
  if (facts_.hang.stacks_count() >= living_worker_count()) react(Occurrence::kStacksEnded, now);
}

void Job::hear(NodeId id, const wire::WorkerUnkillable& unkillable, TimePoint) {
  if (!owns(id, unkillable.rank)) return;
  const std::string who = fmt::format("rank {} (node{}, pid {})", unkillable.rank, id, unkillable.pid);
  decide(Tell{fmt::format("{} {}", who, unkillable.what)}, "it keeps the attempt from ending");
  record("worker_unkillable", unkillable.what, id, unkillable.rank);
  facts_.unkillable.push_back({unkillable.rank, id, unkillable.pid, unkillable.what});
}

void Job::hear(NodeId id, const wire::LeftoversUnkillable& leftovers, TimePoint) {
  if (leftovers.left.empty()) return name_leftover("it cannot be told whether processes are left", id);
  name_leftovers(leftovers.left, id);
}

void Job::name_leftovers(const std::vector<Leftover>& left, std::optional<NodeId> node) {
  constexpr std::size_t kMostNamed = 5;
  for (std::size_t i = 0; i < std::min(left.size(), kMostNamed); ++i) name_leftover(describe(left[i]), node);
  if (left.size() > kMostNamed)
    name_leftover(fmt::format("{} more processes cannot be killed either", left.size() - kMostNamed), node);
}

void Job::name_leftover(const std::string& what, std::optional<NodeId> node) {
  std::string text = node ? fmt::format("node{}: {}", *node, what) : what;
  decide(Tell{text + "; left behind"}, "nobody waits for it");
  record("leftover_unkillable", what, node);
  facts_.leftovers.push_back(std::move(text));
}

void Job::hear(NodeId id, const wire::AgentNotice& notice, TimePoint) {
  decide(Tell{fmt::format("node{}: {}", id, notice.text)}, "the agent has something to say");
  record("agent_notice", notice.text, id);
}

void Job::handle(const AgentEnded& event, TimePoint now) {
  lose(event.node, now, event.how, now);
}

void Job::handle(const StraysEnded&, TimePoint now) {
  strays_ = false;
  react(Occurrence::kStraysEnded, now);
}

// An attempt is not repeated beside processes of a lost node, which may be its ranks. Anything else does not
// wait for them.
void Job::handle(const StraysRemain& event, TimePoint now) {
  name_leftovers(event.left, std::nullopt);
  if (phase_ == Phase::kStopping && !all_ranks_ended()) return;
  strays_ = false;
  react(Occurrence::kStraysEnded, now);
}

void Job::handle(const AttemptDenied& event, TimePoint now) {
  if (reaction(Occurrence::kDenied) == Reaction::kIgnore) return;
  facts_.refusal = event.refusal;
  react(Occurrence::kDenied, now);
}

}  // namespace muster::launcher
