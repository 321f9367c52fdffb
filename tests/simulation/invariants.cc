#include "tests/simulation/invariants.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "launcher/core/text/words.h"

namespace muster::simulation {

using launcher::in_seconds;
using launcher::Verdict;

std::string text_of(const Culprit& culprit) {
  if (!culprit.rank && !culprit.node) return "nobody";
  std::string text = culprit.rank ? fmt::format("rank {}", *culprit.rank) : "";
  if (culprit.node) text += fmt::format("{}node{}", text.empty() ? "" : " of ", *culprit.node);
  return text;
}

Culprit blamed_by(const Verdict& verdict) {
  return {.rank = verdict.rank, .node = verdict.node};
}

bool Culprit::is_blamed_by(const Verdict& verdict) const {
  return rank == verdict.rank && node == verdict.node;
}

void Invariants::fail(std::string text) {
  constexpr std::size_t kMost = 20;
  if (findings_.size() < kMost) findings_.push_back({age_(), std::move(text)});
}

void Invariants::holds(bool condition, const std::string& what) {
  if (!condition) fail(what);
}

void Invariants::nothing_is_left(int process_count, int agent_count) {
  if (process_count + agent_count > 0)
    fail(fmt::format("G1: {} processes and {} agents are left when the launcher ends", process_count,
                     agent_count));
}

void Invariants::a_job_without_launcher_has_ended(int process_count, int agent_count) {
  if (process_count + agent_count > 0)
    fail(
        fmt::format("G1: {} processes and {} agents live on without a launcher", process_count, agent_count));
}

void Invariants::attempts_do_not_overlap(NodeId node, Attempt attempt, int earlier_process_count) {
  if (earlier_process_count > 0)
    fail(fmt::format("G2: attempt {} starts on node{} beside {} processes of an earlier attempt", attempt,
                     node, earlier_process_count));
}

void Invariants::attempt_is_new(Attempt attempt, std::optional<Attempt> newest) {
  if (newest && attempt <= *newest)
    fail(fmt::format("G2: attempt {} begins after attempt {}", attempt, *newest));
}

void Invariants::ranks_are_whole(const Membership& membership) {
  std::set<NodeId> seen;
  int rank_count = 0;
  for (const Membership::Member& each : membership.nodes) {
    if (each.first_rank.value() != rank_count || !seen.insert(each.node).second)
      fail(fmt::format("G2: node{} is to have the ranks from {} on", each.node, each.first_rank));
    if (each.worker_count < 1 || each.worker_count > each.room)
      fail(fmt::format("G2: node{} is to have {} ranks, and has room for {}", each.node, each.worker_count,
                       each.room));
    rank_count += each.worker_count;
  }
  const int count = static_cast<int>(membership.nodes.size());
  if (count < membership.min_nodes || count > membership.max_nodes)
    fail(fmt::format("G2: an attempt of {} nodes, allowed are {} to {}", count, membership.min_nodes,
                     membership.max_nodes));
}

void Invariants::rank_starts_once(Attempt attempt, Rank rank, bool again) {
  if (again) fail(fmt::format("G2: rank {} is started twice in attempt {}", rank, attempt));
}

void Invariants::blames_one_of(const Verdict& verdict, std::span<const Culprit> possible) {
  const auto fits = [&](const Culprit& each) {
    const auto& codes = each.exit_codes;
    return codes.empty() || std::ranges::find(codes, verdict.exit_code) != codes.end();
  };
  std::string names;
  std::vector<int> codes;
  bool found = false;
  for (const Culprit& each : possible) {
    names += (names.empty() ? "" : ", ") + text_of(each);
    if (!each.is_blamed_by(verdict)) continue;
    if (fits(each)) return;
    found = true;
    codes.insert(codes.end(), each.exit_codes.begin(), each.exit_codes.end());
  }
  const std::string blamed = text_of(blamed_by(verdict));
  if (found) {
    fail(fmt::format("G6: the exit code is {}, but what happened to {} gives {} ({})", verdict.exit_code,
                     blamed, fmt::join(codes, " or "), verdict.cause));
  } else {
    fail(fmt::format("G6: blamed is {}, but it was {} ({})", blamed, names.empty() ? "nobody's fault" : names,
                     verdict.cause));
  }
}

void Invariants::class_is_true(const Verdict& verdict, bool happened) {
  if (!happened)
    fail(fmt::format("G6: the class is {}, and nothing of that kind happened ({})", name_of(verdict.kind),
                     verdict.cause));
}

void Invariants::only_the_touched_are_killed(NodeId node, bool touched) {
  if (!touched) fail(fmt::format("G6: the agent of node{} is killed, and nothing has happened to it", node));
}

void Invariants::makes_progress(Duration since, Duration limit) {
  if (since > limit)
    fail(fmt::format("G7: no step and no end for {:.3f} s after the last fault, allowed are {:.3f} s",
                     in_seconds(since), in_seconds(limit)));
}

void Invariants::restarts_are_called_for(int restart_count, int cause_count, int allowed) {
  if (restart_count > cause_count)
    fail(fmt::format("G7: {} restarts for {} faults", restart_count, cause_count));
  if (restart_count > allowed) fail(fmt::format("G7: {} restarts, allowed are {}", restart_count, allowed));
}

void Invariants::gives_up_for_a_reason(const Verdict& verdict, int restart_count, int allowed) {
  if (verdict.restart_may_help() && verdict.gave_up != Verdict::GaveUp::kNoProgress &&
      restart_count < allowed)
    fail(fmt::format("G7: given up after {} of {} restarts ({})", restart_count, allowed, verdict.cause));
}

void Invariants::success_is_earned(const Verdict& verdict, int world_size, int succeeded_count) {
  if (verdict.exit_code == 0 && (succeeded_count != world_size || world_size == 0))
    fail(fmt::format("G8: success is reported, but {} of {} ranks exited 0", succeeded_count, world_size));
}

void Invariants::end_was_wanted(const Verdict& verdict, bool wanted, bool code_fits) {
  if (!wanted) fail(fmt::format("G8: {}, but nobody wanted that", verdict.cause));
  if (!code_fits)
    fail(fmt::format("G8: exit code {} of a job that was {}", verdict.exit_code, verdict.cause));
}

void Invariants::preemption_is_saved(const Verdict& verdict, bool saved) {
  if (verdict.exit_code == launcher::kExitPreempted && !saved)
    fail("G8: 75 is reported, and nothing was saved");
}

}  // namespace muster::simulation
