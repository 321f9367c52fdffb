#include "tests/simulation/judge.h"

#include <algorithm>

namespace muster::simulation {

using launcher::Phase;
using launcher::Verdict;

void Judge::look(const launcher::Job& job, const Known& known) {
  const Ends ends{job.repeat_count(), job.phase() >= Phase::kLeaving, job.verdict().node, job.verdict().at};
  const Ends before = std::exchange(ends_, ends);
  if (ends != before) {
    judge(job, known);
    if (job.verdict().kind != Verdict::Kind::kRefused && ends.repeat_count != before.repeat_count)
      repeated_ = job.verdict();
  }
  members_ = members_now(job);
  if (job.attempt() == attempt_) return;
  world_.invariants.attempt_is_new(job.attempt(), attempt_);
  attempt_ = job.attempt();
  check_members(job);
}

// The members of the current attempt; none without an attempt.
std::set<NodeId> Judge::members_now(const launcher::Job& job) {
  std::set<NodeId> members;
  if (job.phase() != Phase::kStopping) gathered_ = job.phase() != Phase::kGathering;
  if (!gathered_) return members;
  for (const launcher::NodePlan& each : job.members()) members.insert(each.node);
  return members;
}

bool Judge::is_decisive(const launcher::Job& job, NodeId node) const {
  const bool may_do_without =
      world_.script.spare_nodes > 0 || world_.script.min_nodes < world_.script.node_count;
  if (job.phase() == Phase::kGathering) return !may_do_without && !job.backs_off();
  return std::ranges::find(job.members(), node, &launcher::NodePlan::node) != job.members().end();
}

void Judge::check_members(const launcher::Job& job) {
  Invariants::Membership membership{.nodes = {},
                                    .min_nodes = world_.script.min_nodes,
                                    .max_nodes = world_.script.node_count + world_.script.added_nodes};
  for (const launcher::NodePlan& each : job.members())
    membership.nodes.push_back(
        {each.node, each.first_rank, each.worker_count, world_.script.room_of(each.node.value())});
  world_.invariants.ranks_are_whole(membership);
}

void Judge::judge(const launcher::Job& job, const Known& known) {
  const Verdict& verdict = job.verdict();
  std::vector<Culprit> culprits = truth().culprits_of_attempt(attempt_, members_, world_.timeline.now());
  // The verdict of a restart that is stopped or refused before it runs includes the reason for the restart.
  if (!verdict.restart_may_help() && repeated_) culprits.push_back(blamed_by(*repeated_));
  if (known.ranks != nullptr && known.ranks->saved_on_notice()) saved_on_notice_ = true;
  switch (verdict.kind) {
    case Verdict::Kind::kSucceeded: break;
    case Verdict::Kind::kGrown:
      world_.invariants.holds(world_.growth_count > 0, "an attempt ends for hosts that nobody added");
      break;
    case Verdict::Kind::kInterrupted:
    case Verdict::Kind::kCancelled:
    case Verdict::Kind::kPreempted:
    case Verdict::Kind::kTimeLimit: judge_wish(verdict, known); break;
    default: judge_failure(verdict, known, std::move(culprits)); break;
  }
  truth().judged();
  if (job.phase() >= Phase::kLeaving) judge_end(job, known);
}

void Judge::judge_wish(const Verdict& verdict, const Known& known) {
  Invariants& must = world_.invariants;
  const Wishes& wishes = known.wishes;
  constexpr int kByInt = 130, kByUsr1 = 138, kByTerm = 143;
  if (verdict.kind == Verdict::Kind::kInterrupted) {
    const bool by_user = verdict.exit_code == kByInt;
    must.end_was_wanted(verdict, by_user ? wishes.interrupt_count > 0 : wishes.noticed,
                        by_user || verdict.exit_code == kByTerm || verdict.exit_code == kByUsr1);
  } else if (verdict.kind == Verdict::Kind::kCancelled) {
    must.end_was_wanted(verdict, wishes.cancelled, verdict.exit_code == kByInt);
  } else if (verdict.kind == Verdict::Kind::kPreempted) {
    must.end_was_wanted(verdict, wishes.noticed && world_.script.preemptible,
                        verdict.exit_code == launcher::kExitPreempted);
    must.preemption_is_saved(verdict, saved_on_notice_);
  } else {
    must.end_was_wanted(verdict, false, false);  // there is no time limit
  }
}

void Judge::judge_failure(const Verdict& verdict, const Known& known, std::vector<Culprit> culprits) {
  Invariants& must = world_.invariants;
  const auto happened = [&](std::initializer_list<FaultKind> kinds) {
    return std::ranges::any_of(kinds, [&](FaultKind kind) { return truth().any(kind); });
  };
  if (verdict.kind == Verdict::Kind::kRefused) {
    if (known.fenced || known.denial_count > 0) culprits.emplace_back();
    if (known.ranks_fenced())
      culprits.push_back({.rank = std::nullopt, .node = known.ranks->node_of_rank_0()});
  } else if (verdict.kind == Verdict::Kind::kOutOfMemory) {
    must.class_is_true(verdict, happened({FaultKind::kOutOfMemory}));
  } else if (verdict.kind == Verdict::Kind::kHang) {
    // Fenced ranks stop. If rank 0's datagram about it is lost, only a hang shows. If other datagrams are
    // lost too, ranks whose last steps are unknown seem to be behind.
    if (known.ranks_fenced()) culprits.emplace_back();
    // The text names a rank that lost its GPU; the verdict blames it if the others' stacks arrived in time.
    if (happened({FaultKind::kGpuFails})) culprits.emplace_back();
    if (known.ranks_fenced() && verdict.node && world_.any_datagram_lost_since(known.ranks->began()))
      culprits.push_back(blamed_by(verdict));
    must.class_is_true(
        verdict, known.ranks_fenced() || happened({FaultKind::kWorkerStalls, FaultKind::kWorkerStopped,
                                                   FaultKind::kWorkerUnkillable, FaultKind::kGpuFails}));
  } else if (verdict.kind == Verdict::Kind::kGpu) {
    must.class_is_true(verdict, happened({FaultKind::kGpuFails}));
  } else if (verdict.kind == Verdict::Kind::kDiskFull) {
    must.class_is_true(verdict, false);
  }
  // If agents left because their launcher was stopped, the launcher is the cause, which no verdict can name.
  if (!known.slept) must.blames_one_of(verdict, culprits);
}

// Only if the rank that gets the input has taken part for longer than a clogged link delays it, and the
// launcher has been awake for as long.
bool Judge::may_expect_input(const Known& known) const {
  constexpr Duration kInputIsLate = std::chrono::seconds(5);
  return world_.script.input && known.ranks != nullptr &&
         known.ranks->world_size() == world_.script.rank_count() &&
         world_.timeline.now() >= std::max(known.ranks->began(), truth().sees_since()) + kInputIsLate;
}

void Judge::judge_end(const launcher::Job& job, const Known& known) {
  Invariants& must = world_.invariants;
  must.success_is_earned(job.verdict(), known.ranks == nullptr ? 0 : known.ranks->world_size(),
                         known.ranks == nullptr ? 0 : known.ranks->succeeded_count());
  if (job.verdict().exit_code == 0 && may_expect_input(known))
    must.holds(world_.input[launch_].read_count > 0,
               "a rank reads some of the input before the job succeeds");
  const auto wished = known.wishes.restarts_before;
  // A launcher that was stopped sees the ends of its agents one after the other: its stop is one cause.
  // Fenced ranks hang if rank 0's report of it is lost.
  const int cause_count =
      truth().cause_count() + known.denial_count + (known.slept ? 1 : 0) + (known.ranks_fenced() ? 1 : 0);
  must.restarts_are_called_for(job.restart_count(), cause_count, wished.value_or(world_.script.max_restarts));
  if (!known.may_give_up && !wished)
    must.gives_up_for_a_reason(job.verdict(), job.restart_count(), world_.script.max_restarts);
}

}  // namespace muster::simulation
