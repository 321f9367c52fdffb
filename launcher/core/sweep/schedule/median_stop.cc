// The median stopping rule of Google Vizier (Golovin et al., KDD 2017, section 3.2.2): a trial ends if its
// best value so far is strictly worse than the median of the other trials' running averages up to this step.
//
// Vizier counts only completed trials. If all trials ran at once, that rule would never stop one. Here, as in
// Ray, each trial that has reached this step counts, and the rule needs three of them.
#include <algorithm>
#include <cmath>

#include "launcher/core/sweep/schedule/schedulers.h"

namespace muster::launcher::sweep {
namespace {

constexpr std::size_t kOthersNeeded = 3;

// Returns the average cost of the trial's reports up to `step`. Returns nullopt if the trial has not reached
// `step`.
std::optional<double> average_cost(const Objective& objective, const Trial& trial, std::int64_t step) {
  double sum = 0;
  std::int64_t count = 0;
  bool is_there = false;
  for (const Measurement& each : measured(objective, trial)) {
    is_there = is_there || each.step >= step;
    if (each.step > step) continue;
    sum += cost_of(objective.mode, each.value);
    ++count;
  }
  if (!is_there || count == 0) return std::nullopt;
  return std::isnan(sum) ? kWorst : sum / static_cast<double>(count);
}

double best_cost(const Objective& objective, const Trial& trial) {
  double best = kWorst;
  for (const Measurement& each : measured(objective, trial))
    best = std::min(best, cost_of(objective.mode, each.value));
  return best;
}

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::ranges::max_element(values.begin(), middle)) / 2;
}

}  // namespace

ReportDecision report_to_median_stop(const ScheduleSettings& settings, std::span<const Trial> trials,
                                     const Trial& trial) {
  const Steps steps = newest_steps(settings.objective, trial);
  const std::int64_t next = next_look(settings, steps.now);
  const std::int64_t look =
      std::max<std::int64_t>(steps.now, 0) / settings.grace_steps * settings.grace_steps;
  if (look == 0 || steps.before >= look) return {GoOn{next}, "between two looks"};
  std::vector<double> averages;
  for (const Trial& other : trials) {
    if (other.number == trial.number) continue;
    if (const auto average = average_cost(settings.objective, other, steps.now)) averages.push_back(*average);
  }
  if (averages.size() < kOthersNeeded)
    return {GoOn{next}, fmt::format("only {} others have got to step {}", averages.size(), steps.now)};
  const double median = median_of(averages);
  if (best_cost(settings.objective, trial) <= median)
    return {GoOn{next}, fmt::format("not worse than the median of {} others", averages.size())};
  return {Stop{}, fmt::format("worse than the median of {} others at step {}", averages.size(), steps.now)};
}

}  // namespace muster::launcher::sweep
