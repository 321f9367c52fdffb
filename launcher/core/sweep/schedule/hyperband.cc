// Hyperband (Li et al., JMLR 18, 2018, arXiv 1603.06560, algorithm 1): brackets of synchronous successive
// halving. The paper runs one bracket after another. Here, if the started brackets have nothing for a free
// slot, the slot starts a trial of the next bracket.
//
// With R = 81, r = 1 and eta = 3, a round of all brackets has 143 trials, as in the paper's table 1: 81, 34,
// 15, 8 and 5. The last round has fewer trials if `trials` is not a multiple of 143. These trials are divided
// among the brackets in the same ratio.
#include <algorithm>

#include "launcher/core/sweep/schedule/schedulers.h"

namespace muster::launcher::sweep {
namespace {

// Returns s_max of the paper, rounded down. Ray 2.60 rounds it to the nearest number, so it may start a
// bracket with fewer than r steps.
std::int32_t largest_bracket(const ScheduleSettings& settings) {
  std::int32_t s = 0;
  for (std::int64_t rung = settings.max_steps / settings.eta; rung >= settings.grace_steps;
       rung /= settings.eta)
    ++s;
  return s;
}

// Bracket s has `ceil((s_max + 1) / (s + 1) * eta^s)` trials. No sweep has more than kMostTrials trials. So
// eta^s is not multiplied any further once it has reached that number.
constexpr std::int64_t kMostTrials = std::int64_t{1} << 20;

std::int64_t trials_in(std::int32_t s, std::int32_t s_max, std::int32_t eta) {
  std::int64_t power = 1;
  for (std::int32_t i = 0; i < s && power < kMostTrials; ++i) power *= eta;
  return ((s_max + 1) * power + s) / (s + 1);
}

bool is_complete(std::span<const Trial> trials, std::int64_t rung) {
  return std::ranges::none_of(trials,
                              [&](const Trial& trial) { return trial.until <= rung && !has_arrived(trial); });
}

// Returns the next promotion in a bracket that has all of its trials. A trial may fail after it was promoted.
// No other trial is promoted in its place.
std::optional<SlotDecision> promotion_in(const Slot& slot, std::span<const Trial> trials,
                                         const std::vector<std::int64_t>& rungs) {
  std::int32_t kept = static_cast<std::int32_t>(trials.size());
  for (std::size_t at = 0; at + 1 < rungs.size(); ++at) {
    if (!is_complete(trials, rungs[at])) return std::nullopt;
    const std::int32_t count = kept;
    kept = share_of(kept, slot.settings.eta);
    const auto promoted =
        std::ranges::count_if(trials, [&](const Trial& each) { return each.until > rungs[at]; });
    if (promoted >= kept) continue;
    const Trial* best = best_paused(slot.settings.objective, trials, rungs[at]);
    if (best == nullptr) continue;
    return SlotDecision{NextRun{.trial = best->number, .until = rungs[at + 1]},
                        fmt::format("one of the best {} of {} at step {} in bracket {}", kept, count,
                                    rungs[at], best->bracket)};
  }
  return std::nullopt;
}

SlotDecision new_trial_in(const Bracket& bracket, std::int32_t number) {
  return {NewTrial{.bracket = number, .until = bracket.rungs.front()},
          fmt::format("bracket {} has {} trials", number, bracket.trials)};
}

}  // namespace

Bracket bracket_of(const ScheduleSettings& settings, std::int32_t number) {
  const std::int32_t s_max = largest_bracket(settings);
  const std::int32_t s = s_max - number % (s_max + 1);
  std::int64_t before = 0;  // trials of the round's brackets before this one, if it is a full one
  std::int64_t round = 0;
  for (std::int32_t each = s_max; each >= 0; --each) {
    if (each == s) before = round;
    round += trials_in(each, s_max, settings.eta);
  }
  const std::int64_t left = settings.trials - number / (s_max + 1) * round;
  const std::int64_t taken = left > 0 ? std::min(left, round) : round;
  const auto share = [&](std::int64_t part) { return part * taken / round; };
  const std::int64_t through = before + trials_in(s, s_max, settings.eta);
  Bracket bracket{.trials = static_cast<std::int32_t>(share(through) - share(before)), .rungs = {}};
  std::int64_t divisor = 1;
  for (std::int32_t i = 0; i <= s; ++i, divisor *= settings.eta)
    bracket.rungs.insert(bracket.rungs.begin(), (settings.max_steps + divisor / 2) / divisor);
  return bracket;
}

std::int32_t next_bracket(const ScheduleSettings& settings, std::int32_t number) {
  do ++number;
  while (bracket_of(settings, number).trials == 0);
  return number;
}

std::optional<SlotDecision> next_of_hyperband(const Slot& slot) {
  std::int32_t number = -1;
  for (std::size_t first = 0; first < slot.trials.size();) {  // a bracket's trials are consecutive
    number = slot.trials[first].bracket;
    std::size_t end = first;
    while (end < slot.trials.size() && slot.trials[end].bracket == number) ++end;
    const auto trials = slot.trials.subspan(first, end - first);
    const Bracket bracket = bracket_of(slot.settings, number);
    const bool is_last = end == slot.trials.size();
    if (is_last && slot.may_create && std::ssize(trials) < bracket.trials)
      return new_trial_in(bracket, number);
    if (auto next = promotion_in(slot, trials, bracket.rungs)) return next;
    first = end;
  }
  if (!slot.may_create) return std::nullopt;
  number = next_bracket(slot.settings, number);
  return new_trial_in(bracket_of(slot.settings, number), number);
}

}  // namespace muster::launcher::sweep
