// ASHA (Li et al., A System for Massively Parallel Hyperparameter Tuning, MLSys 2020, arXiv 1810.05934) in
// two forms: the paper's algorithm 2, which promotes paused trials, and the form that stops running trials.
#include <algorithm>

#include "launcher/core/sweep/schedule/schedulers.h"

namespace muster::launcher::sweep {
namespace {

struct RungCount {
  std::int32_t beyond = 0;  // promoted from here
  std::int32_t paused = 0;
  std::int32_t over = 0;  // ended here; they count as the worst ones, so that failures block nobody

  std::int32_t arrived() const { return beyond + paused + over; }
};

std::vector<RungCount> count_rungs(const Slot& slot, const std::vector<std::int64_t>& rungs) {
  std::vector<RungCount> counts(rungs.size());
  std::vector<std::int32_t> headed(rungs.size());  // for the rung, or arrived there
  for (const Trial& trial : slot.trials) {
    if (trial.run_count == 0) continue;
    std::size_t at = 0;
    while (at + 1 < rungs.size() && rungs[at] < trial.until) ++at;
    ++headed[at];
    if (!has_arrived(trial)) continue;
    ++(trial.state == TrialState::kPaused ? counts[at].paused : counts[at].over);
  }
  for (std::size_t at = rungs.size() - 1; at > 0; --at)
    counts[at - 1].beyond = counts[at].beyond + headed[at];
  return counts;
}

// Returns whether at least `limit` of the trials that were promoted from `rung` have a better value there
// than `trial`.
bool has_better(const Slot& slot, const Trial& trial, std::int64_t rung, std::int32_t limit) {
  const Objective& objective = slot.settings.objective;
  const double cost = cost_at(objective, trial, rung);
  std::int32_t better = 0;
  for (const Trial& other : slot.trials) {
    if (other.run_count == 0 || other.until <= rung) continue;
    const double theirs = cost_at(objective, other, rung);
    if (theirs < cost || (theirs == cost && other.number < trial.number)) ++better;
    if (better >= limit) return true;
  }
  return false;
}

// Finds a trial that is paused at a rung and may be promoted. If n trials have arrived at the rung, it must
// be one of the best floor(n / eta) of them. Looks at the highest rungs first.
std::optional<SlotDecision> promotion(const Slot& slot, const std::vector<std::int64_t>& rungs,
                                      const std::vector<RungCount>& counts) {
  for (std::size_t at = rungs.size() - 1; at-- > 0;) {
    const std::int32_t places = counts[at].arrived() / slot.settings.eta;
    if (places == 0 || counts[at].paused == 0) continue;
    const Trial* best = best_paused(slot.settings.objective, slot.trials, rungs[at]);
    if (best == nullptr) continue;
    // All places may be taken by trials that are better than the best paused trial. Then this rung is
    // skipped.
    if (counts[at].beyond >= places && has_better(slot, *best, rungs[at], places)) continue;
    return SlotDecision{
        NextRun{.trial = best->number, .until = rungs[at + 1]},
        fmt::format("one of the best {} of {} trials at step {}", places, counts[at].arrived(), rungs[at])};
  }
  return std::nullopt;
}

// If nothing else is left, promotes the best trial, so that one trial reaches the last rung, R. The algorithm
// of the paper never needs this, because it always has more trials to start. Here the number of trials is
// limited. With 8 trials and eta 3, only 2 trials would be promoted to the next rung, and none of these 2
// would be promoted again.
std::optional<SlotDecision> last_promotion(const Slot& slot, const std::vector<std::int64_t>& rungs) {
  const Objective& objective = slot.settings.objective;
  const bool is_done = std::ranges::any_of(
      slot.trials, [&](const Trial& trial) { return cost_at(objective, trial, rungs.back()) < kWorst; });
  if (is_done) return std::nullopt;
  for (std::size_t at = rungs.size() - 1; at-- > 0;)
    if (const Trial* best = best_paused(objective, slot.trials, rungs[at]))
      return SlotDecision{
          NextRun{.trial = best->number, .until = rungs[at + 1]},
          fmt::format("the best trial at step {}: no trial has got to step {}", rungs[at], rungs.back())};
  return std::nullopt;
}

}  // namespace

std::optional<SlotDecision> next_of_asha(const Slot& slot) {
  const std::vector<std::int64_t> rungs = rungs_of(slot.settings);
  if (auto next = promotion(slot, rungs, count_rungs(slot, rungs))) return next;
  if (slot.may_create)
    return SlotDecision{NewTrial{.bracket = 0, .until = rungs.front()}, "no trial can be promoted"};
  return slot.any_runs ? std::nullopt : last_promotion(slot, rungs);
}

// The trial continues if it is one of the best floor(n / eta) trials, and also if it is the best. n is the
// number of trials that have a value at the rung, including this one. Optuna 5.0 and Determined do the same.
// Ray interpolates between the values of the other trials.
ReportDecision report_to_asha_stop(const ScheduleSettings& settings, std::span<const Trial> trials,
                                   const Trial& trial) {
  const std::vector<std::int64_t> rungs = rungs_of(settings);
  const Steps steps = newest_steps(settings.objective, trial);
  const auto next = std::ranges::upper_bound(rungs, steps.now);
  if (next == rungs.begin() || steps.before >= *std::prev(next)) return {GoOn{*next}, "between two rungs"};
  const std::int64_t rung = *std::prev(next);
  const double cost = cost_at(settings.objective, trial, rung);
  if (cost == kWorst) return {Stop{}, fmt::format("no usable value at step {}", rung)};
  std::int32_t count = 0;
  std::int32_t better = 0;
  for (const Trial& each : trials) {
    const std::optional<double> value = each.value_at(settings.objective.metric, rung);
    if (!value) continue;
    ++count;
    if (cost_of(settings.objective.mode, *value) < cost) ++better;
  }
  const std::int32_t places = share_of(count, settings.eta);
  if (better < places)
    return {GoOn{*next}, fmt::format("one of the best {} of {} at step {}", places, count, rung)};
  return {Stop{}, fmt::format("not one of the best {} of {} at step {}", places, count, rung)};
}

}  // namespace muster::launcher::sweep
