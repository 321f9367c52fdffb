// The schedulers one by one, and what they share. schedule.cc chooses among them.
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

// The schedulers compare costs, so that they need not know the mode: a smaller cost is better. kWorst stands
// for NaN, for the worst infinity and for no value. A trial with kWorst is never promoted.
inline constexpr double kWorst = std::numeric_limits<double>::infinity();
double cost_of(Mode mode, double value);
// The cost of the trial's first report at `step` or later.
double cost_at(const Objective& objective, const Trial& trial, std::int64_t step);
const std::vector<Measurement>& measured(const Objective& objective, const Trial& trial);

// The largest step that the trial has reported for the objective: before its newest report, and with it. -1:
// none. A report of an earlier step, or of another metric, changes neither.
struct Steps {
  std::int64_t before = -1;
  std::int64_t now = -1;
};
Steps newest_steps(const Objective& objective, const Trial& trial);

// ---- Steps ----

// The rungs: `r, r * eta, r * eta^2, ...` below R, and R. r is grace_steps, R is max_steps.
std::vector<std::int64_t> rungs_of(const ScheduleSettings& settings);
// Returns the next step after `step` at which PBT and the median rule look at a trial: a multiple of
// grace_steps, or max_steps.
std::int64_t next_look(const ScheduleSettings& settings, std::int64_t step);
// How many of `count` trials at a rung continue: the best ones, at least one.
inline std::int32_t share_of(std::int32_t count, std::int32_t eta) {
  return std::max(1, count / eta);
}

// ---- Trials ----

// A trial has arrived at its rung, Trial::until, once it is paused there or over.
bool has_arrived(const Trial& trial);
// The best trial of those paused at `rung`; among equal ones, the first. nullptr: none can be promoted.
const Trial* best_paused(const Objective& objective, std::span<const Trial> trials, std::int64_t rung);

// ---- Hyperband's brackets ----

// Hyperband repeats the brackets s = s_max, s_max - 1, ..., 0. They are numbered from 0 in this order.
struct Bracket {
  std::int32_t trials = 0;          // how many are created in it
  std::vector<std::int64_t> rungs;  // R / eta^s, ..., R / eta, R
};
Bracket bracket_of(const ScheduleSettings& settings, std::int32_t number);
// The first bracket after `number` in which a trial is created.
std::int32_t next_bracket(const ScheduleSettings& settings, std::int32_t number);

// ---- A free slot; nullopt: nothing can be started now ----

// The facts about a free slot. No trial is in kWaiting. `may_create`: whether a new trial may
// be created.
struct Slot {
  const ScheduleSettings& settings;
  std::span<const Trial> trials;
  bool may_create = false;
  bool any_runs = false;
};
std::optional<SlotDecision> next_of_asha(const Slot& slot);
std::optional<SlotDecision> next_of_hyperband(const Slot& slot);
std::optional<SlotDecision> next_of_pbt(const Slot& slot);

// ---- A report of a trial that is not at R yet ----

ReportDecision report_to_asha_stop(const ScheduleSettings& settings, std::span<const Trial> trials,
                                   const Trial& trial);
ReportDecision report_to_median_stop(const ScheduleSettings& settings, std::span<const Trial> trials,
                                     const Trial& trial);
ReportDecision report_to_pbt(const ScheduleSettings& settings, std::span<const Trial> trials,
                             const Trial& trial);

}  // namespace muster::launcher::sweep
