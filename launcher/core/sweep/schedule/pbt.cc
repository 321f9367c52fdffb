// Population based training (Jaderberg et al. 2017, arXiv 1711.09846) with truncation selection: at each
// interval a trial in the worst quarter takes over the checkpoint of a random trial in the best quarter.
//
// As in Ray Tune 2.60, no trial waits for the others. A trial is compared with all trials that are not over.
// Each of them counts with its value at the newest interval that it has reached. In Ray, the order of the
// first reports decides, too: whoever comes later and is worse than the first ones is replaced. Muster is
// more careful with a trial at its first interval. The trial is replaced then only if it would be in the
// worst quarter even if all trials without a value turned out worse.
#include <algorithm>

#include "launcher/core/sweep/schedule/schedulers.h"

namespace muster::launcher::sweep {
namespace {

// The finalizer of splitmix64.
std::uint64_t scrambled(std::uint64_t bits) {
  bits += 0x9e3779b97f4a7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

// Returns the largest step that the trial had before its newest report, whether reported or taken over with a
// checkpoint.
std::int64_t step_before(const Objective& objective, const Trial& trial) {
  const std::int64_t taken_over = trial.exploits.empty() ? 0 : trial.exploits.back().step;
  return std::max(taken_over, newest_steps(objective, trial).before);
}

std::int64_t step_now(const Objective& objective, const Trial& trial) {
  return std::max(step_before(objective, trial), newest_steps(objective, trial).now);
}

struct Standing {
  double cost = kWorst;
  const Trial* trial = nullptr;

  bool is_before(const Standing& other) const {
    return cost != other.cost ? cost < other.cost : trial->number < other.trial->number;
  }
};

// Returns the trial's cost at the newest interval that it has reached. Returns nullopt if it has reached
// none. A trial that has taken over a checkpoint counts as the worst until it gets to another interval. So
// trials that were just replaced are in the worst quarter. While they fill this quarter, no other trial is
// replaced. First they have to show what they gained.
std::optional<double> newest_cost(const ScheduleSettings& settings, const Trial& trial) {
  const std::int64_t now = newest_steps(settings.objective, trial).now;
  if (!trial.exploits.empty() && now < next_look(settings, trial.exploits.back().step)) return kWorst;
  const std::int64_t look = now / settings.grace_steps * settings.grace_steps;
  if (look <= 0) return std::nullopt;
  return cost_at(settings.objective, trial, look);
}

// The number of trials in the best quarter, and in the worst.
std::size_t quarter_of(std::size_t population) {
  return population >= 2 ? std::max<std::size_t>(population / 4, 1) : 0;
}

// `trial` has just reached the interval at step `look`. Returns the trial that `trial` has to take over.
// Returns nullptr if `trial` is not in the worst quarter, or if no trial in the best quarter can be taken
// over.
const Trial* trial_to_exploit(const ScheduleSettings& settings, std::span<const Trial> trials,
                              const Trial& trial, std::int64_t look) {
  std::vector<Standing> standings;
  const auto population_size = static_cast<std::size_t>(settings.trials);
  std::size_t unknown = population_size - std::min(population_size, trials.size());  // not created yet
  for (const Trial& each : trials) {
    if (each.is_over()) continue;
    if (const auto cost = newest_cost(settings, each))
      standings.push_back({*cost, &each});
    else
      ++unknown;
  }
  const bool is_first = step_before(settings.objective, trial) < settings.grace_steps;
  const std::size_t population = standings.size() + (is_first ? unknown : 0);
  const std::size_t quarter = quarter_of(population);
  const Standing own{cost_at(settings.objective, trial, look), &trial};
  const auto better =
      std::ranges::count_if(standings, [&](const Standing& each) { return each.is_before(own); });
  if (quarter == 0 || static_cast<std::size_t>(better) + quarter < population) return nullptr;
  // nth_element() is faster than a sort: a decision in a population of 10,000 takes half a millisecond.
  const auto select = [&](std::size_t nth) {
    std::ranges::nth_element(
        standings, standings.begin() + static_cast<std::ptrdiff_t>(nth),
        [](const Standing& left, const Standing& right) { return left.is_before(right); });
  };
  select(quarter - 1);
  standings.resize(quarter);
  std::erase_if(standings, [](const Standing& each) { return each.cost == kWorst; });
  if (standings.empty()) return nullptr;
  const std::uint64_t random = scrambled(scrambled(settings.seed ^ static_cast<std::uint64_t>(look)) ^
                                         static_cast<std::uint64_t>(trial.number));
  const std::size_t chosen = random % standings.size();
  select(chosen);
  return standings[chosen].trial;
}

}  // namespace

// Creates new trials until the population is complete. After that, continues the paused trial that is
// furthest behind.
std::optional<SlotDecision> next_of_pbt(const Slot& slot) {
  if (slot.may_create)
    return SlotDecision{NewTrial{.bracket = 0, .until = next_look(slot.settings, 0)},
                        "the population is not complete"};
  const Trial* next = nullptr;
  for (const Trial& each : slot.trials) {
    if (each.state != TrialState::kPaused) continue;
    if (next == nullptr || each.until < next->until) next = &each;
  }
  if (next == nullptr) return std::nullopt;
  const std::int64_t step = step_now(slot.settings.objective, *next);
  return SlotDecision{NextRun{.trial = next->number, .until = next_look(slot.settings, step)},
                      fmt::format("the most behind, at step {}", step)};
}

ReportDecision report_to_pbt(const ScheduleSettings& settings, std::span<const Trial> trials,
                             const Trial& trial) {
  const Objective& objective = settings.objective;
  const std::int64_t now = step_now(objective, trial);
  const std::int64_t next = next_look(settings, now);
  const std::int64_t look = now / settings.grace_steps * settings.grace_steps;
  if (look == 0 || step_before(objective, trial) >= look) return {GoOn{next}, "between two intervals"};
  if (const Trial* from = trial_to_exploit(settings, trials, trial, look))
    return {Exploit{from->number},
            fmt::format("in the worst quarter at step {}; trial {} is in the best", look, from->number)};
  // If another trial waits for a slot, this trial is paused, and the other trial gets its slot. So the whole
  // population progresses together.
  const bool others_wait =
      std::ssize(trials) < settings.trials || std::ranges::any_of(
                                                  trials,
                                                  [](const Trial& each) {
                                                    return each.state == TrialState::kPaused ||
                                                           each.state == TrialState::kWaiting;
                                                  });
  if (others_wait) return {Pause{}, fmt::format("another trial waits for a slot at step {}", look)};
  return {GoOn{next}, fmt::format("not in the worst quarter at step {}", look)};
}

}  // namespace muster::launcher::sweep
