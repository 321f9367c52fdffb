// The part of Job that the user and the clock move: signals, notices, limits.
#include <csignal>
#include <utility>

#include "launcher/core/job/job.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

// A deadline noticed so late means that the launcher itself was stopped or starved: nobody could be heard
// meanwhile.
constexpr Duration kOverslept = std::chrono::seconds(1);

}  // namespace

// TERM and USR1 are how schedulers say that the machine is needed, INT is how a user does; what workers can
// do with it is theirs to say.
void Job::handle(const Interrupted& event, TimePoint now) {
  const bool is_notice = event.signal == SIGTERM || event.signal == SIGUSR1 || event.signal == SIGINT;
  if (is_notice && can_save()) return notice({event.signal}, plan_.recovery.preemption_grace, now);
  if (event.signal == SIGUSR1 || event.signal == SIGUSR2) return pass_on(event.signal);
  interrupt({event.signal}, now);
}

bool Job::can_save() const {
  return phase_ == Phase::kRunning && !preemption_.given() && preemption_.all_can(facts_.world_size);
}

void Job::interrupt(const StopWish& wish, TimePoint now) {
  constexpr int kLeaveAtOnce = 3;
  if (phase_ == Phase::kDone) return;
  record("interrupted", name_of(wish));
  // A job that has its verdict keeps it.
  if (phase_ < Phase::kStopping) facts_.interrupted_by = wish;
  const bool stops_for_another_reason = phase_ == Phase::kStopping && !facts_.interrupted_by;
  if (++interrupt_count_ >= kLeaveAtOnce) {
    if (stops_for_another_reason) restart_forbidden_by_ = restart_forbidden_by_.value_or(wish);
    return abandon(now, "the user asked three times");
  }
  if (stops_for_another_reason && !restart_forbidden_by_) {
    restart_forbidden_by_ = wish;
    // Where no worker is left, it is log files that are waited for, which only a hurry ends.
    if (!all_ranks_ended()) return tell_wait(now);
  }
  react(Occurrence::kInterrupted, now);
}

// However often it is asked for: to leave without waiting for anything takes a third signal.
void Job::handle(const Cancelled& event, TimePoint now) {
  const StopWish wish{.signal = SIGINT, .cancelled = true};
  if (!event.now && can_save()) return notice(wish, plan_.recovery.preemption_grace, now);
  if (!event.now && preemption_.given() && phase_ <= Phase::kPreempting) return preemption_.want(wish);
  const std::int32_t wanted = event.now ? 2 : 1;
  for (std::int32_t count = interrupt_count_; count < wanted; ++count) interrupt(wish, now);
}

void Job::pass_on(int signal) {
  const bool noticed = signal == SIGUSR1 && preemption_.given();
  if (phase_ == Phase::kDone || noticed) return;
  const auto nodes = phase_ < Phase::kStopping ? roster_.nodes_with_workers() : std::vector<NodeId>{};
  decide(Tell{fmt::format("{} {}", signal_name(signal),
                          nodes.empty() ? "is ignored: no worker runs that could take it"
                                        : "is passed on to the workers")},
         "the user sent it");
  for (const NodeId node : nodes) decide(Send{node, wire::SignalWorkers{signal}}, "the user sent it");
}

// Without a signal it is the time limit's.
void Job::notice(const StopWish& wish, Duration grace, TimePoint now) {
  const std::string why = wish.signal == 0 ? "the time limit comes near" : name_of(wish);
  preemption_.give(wish, history_.back().committed_step);
  record("preemption_notice", why);
  // A rank has failed, and the others cannot agree on a step any more: all are stopped in a moment.
  if (phase_deadline_) return;
  decide(Tell{fmt::format("{}: the workers are asked to save and leave within {:.3g} s{}", why,
                          in_seconds(grace), how_to_hurry())},
         "all of them can");
  for (const NodeId node : roster_.nodes_with_workers())
    decide(Send{node, wire::Preempt{std::chrono::nanoseconds(grace).count()}}, why);
  phase_deadline_ = now + grace;
  react(Occurrence::kNoticed, now);
}

// For a user who waits; a scheduler knows.
std::string Job::how_to_hurry() const {
  if (preemption_.wish().cancelled) return "; `launch cancel --now` stops at once";
  return preemption_.wish().signal == SIGINT ? "; Ctrl-C again stops at once" : "";
}

void Job::handle(const TimePassed&, TimePoint now) {
  const auto due = next_deadline();
  if (!due || *due > now) return;
  if (now - *due > kOverslept) roster_.forgive_silence(now);
  const Duration limit = plan_.job.limits.silence_limit;
  for (const NodeId id : roster_.silent(limit, now)) {
    const Roster::Agent& quiet = roster_.at(id);
    const std::string how = fmt::format(
        "its agent {} for {:g} s",
        quiet.state == Roster::Agent::State::kStarting ? "did not appear" : "was silent", in_seconds(limit));
    // Faults after the last sign of life may all be its doing, so it counts from there.
    kill_node(id, quiet.last_heard, how, now);
  }
  mind_time_limit(now);
  if (phase_deadline_ && *phase_deadline_ <= now) mind_phase_deadline(now);
}

void Job::mind_time_limit(TimePoint now) {
  if (!plan_.recovery.time_limit || time_is_up_ || phase_ >= Phase::kLeaving) return;
  const Duration limit = *plan_.recovery.time_limit;
  if (now >= began_ + limit) {
    time_is_up_ = true;
    facts_.out_of_time = phase_ < Phase::kStopping;
    return react(Occurrence::kTimeLimit, now);
  }
  if (time_noticed_ || now < notice_time(began_, limit, plan_.recovery.preemption_grace)) return;
  time_noticed_ = true;
  if (reaction(Occurrence::kNoticed) == Reaction::kIgnore || !preemption_.all_can(facts_.world_size)) return;
  notice({}, began_ + limit - now, now);
}

void Job::mind_phase_deadline(TimePoint now) {
  switch (phase_) {
    case Phase::kGathering: return gather(now);
    case Phase::kDumping: return react(Occurrence::kStacksEnded, now);
    case Phase::kPreempting:
      if (preemption_.wish().signal != 0) facts_.interrupted_by = preemption_.wish();
      return react(Occurrence::kNoticeExpired, now);
    case Phase::kStopping:
    case Phase::kLeaving: return give_up_on_late_nodes(now);
    case Phase::kRunning: phase_deadline_.reset(); return react(Occurrence::kWorkerFailed, now);
    case Phase::kBeginning:
    case Phase::kPreparing:
    case Phase::kDone: phase_deadline_.reset(); return;
  }
}

}  // namespace muster::launcher
