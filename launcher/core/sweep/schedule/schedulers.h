// The functions of each scheduler, and those that several of them share. schedule.cc chooses the scheduler.
//
// A scheduler stores nothing: it derives the rungs from the trials' reports and runs. Pure.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "launcher/core/sweep/schedule/schedule.h"

namespace muster::launcher::sweep {

// ---- Values ----

// The schedulers compare costs, and a smaller cost is better. cost_of() makes a cost from a value of the
// metric, so that schedulers need not know whether small or large values are better. NaN, the worst infinity
// and a missing value have the cost kWorst. A trial with this cost is never promoted.
inline constexpr double kWorst = std::numeric_limits<double>::infinity();
double cost_of(Mode mode, double value);
// Returns the cost at the first step that the trial has reported and that is not below `step`.
double cost_at(const Objective& objective, const Trial& trial, std::int64_t step);
const std::vector<Measurement>& measured(const Objective& objective, const Trial& trial);

// The largest step that the trial has reported for the objective. `before` does not count its newest report,
// and `now` does. -1 means that there is no such step. If the newest report is about an earlier step or
// another metric, `before` and `now` are equal.
struct Steps {
  std::int64_t before = -1;
  std::int64_t now = -1;
};
Steps newest_steps(const Objective& objective, const Trial& trial);

// ---- Steps ----

// Returns the rungs: `r, r * eta, r * eta^2, ...`, as long as they are below R, and then R. Here r is
// grace_steps and R is max_steps.
std::vector<std::int64_t> rungs_of(const ScheduleSettings& settings);
// Returns the next step after `step` at which PBT and the median rule look at a trial: a multiple of
// grace_steps, or max_steps.
std::int64_t next_look(const ScheduleSettings& settings, std::int64_t step);
// Returns how many of `count` trials at a rung continue. The best ones do. At least one does.
inline std::int32_t share_of(std::int32_t count, std::int32_t eta) {
  return std::max(1, count / eta);
}

// ---- Trials ----

// Returns whether the trial has arrived at its rung, Trial::until. A trial has arrived if it is paused there,
// or if it is over.
bool has_arrived(const Trial& trial);
// Returns the best of the trials that are paused at `rung`. If several are equal, returns the first. Returns
// nullptr if no trial can be promoted.
const Trial* best_paused(const Objective& objective, std::span<const Trial> trials, std::int64_t rung);

// ---- Hyperband's brackets ----

// A bracket of Hyperband. Hyperband repeats the brackets s = s_max, s_max - 1, ..., 0. Here they are numbered
// from 0 in this order.
struct Bracket {
  std::int32_t trials = 0;          // how many are created in it
  std::vector<std::int64_t> rungs;  // R / eta^s, ..., R / eta, R
};
Bracket bracket_of(const ScheduleSettings& settings, std::int32_t number);
// Returns the number of the next bracket after `number`. Skips brackets without trials.
std::int32_t next_bracket(const ScheduleSettings& settings, std::int32_t number);

// ---- A free slot. The result is nullopt if nothing can be started now. ----

// The facts about a free slot. No trial is waiting for a slot (kWaiting). `may_create` says whether a new
// trial may be created.
struct Slot {
  const ScheduleSettings& settings;
  std::span<const Trial> trials;
  bool may_create = false;
  bool any_runs = false;
};
std::optional<SlotDecision> next_of_asha(const Slot& slot);
std::optional<SlotDecision> next_of_hyperband(const Slot& slot);
std::optional<SlotDecision> next_of_pbt(const Slot& slot);

// ---- A report of a trial that is not at R yet. R is the number of steps of a whole trial. ----

ReportDecision report_to_asha_stop(const ScheduleSettings& settings, std::span<const Trial> trials,
                                   const Trial& trial);
ReportDecision report_to_median_stop(const ScheduleSettings& settings, std::span<const Trial> trials,
                                     const Trial& trial);
ReportDecision report_to_pbt(const ScheduleSettings& settings, std::span<const Trial> trials,
                             const Trial& trial);

}  // namespace muster::launcher::sweep
