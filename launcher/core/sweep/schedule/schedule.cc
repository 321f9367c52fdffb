#include "launcher/core/sweep/schedule/schedule.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "launcher/core/sweep/schedule/schedulers.h"

namespace muster::launcher::sweep {
namespace {

std::string_view flag_value(ScheduleSettings::Kind kind) {
  switch (kind) {
    case ScheduleSettings::Kind::kNone: return "none";
    case ScheduleSettings::Kind::kAsha: return "asha";
    case ScheduleSettings::Kind::kAshaStop: return "asha-stop";
    case ScheduleSettings::Kind::kHyperband: return "hyperband";
    case ScheduleSettings::Kind::kMedian: return "median";
    case ScheduleSettings::Kind::kPbt: return "pbt";
  }
  return "none";
}

// Returns the step at which the scheduler looks at a trial for the first time. Returns 0 if it never does.
std::int64_t first_until(const ScheduleSettings& settings, std::int32_t bracket) {
  switch (settings.kind) {
    case ScheduleSettings::Kind::kNone: return settings.max_steps;
    case ScheduleSettings::Kind::kAsha:
    case ScheduleSettings::Kind::kAshaStop: return rungs_of(settings).front();
    case ScheduleSettings::Kind::kHyperband: return bracket_of(settings, bracket).rungs.front();
    case ScheduleSettings::Kind::kMedian:
    case ScheduleSettings::Kind::kPbt: return next_look(settings, 0);
  }
  return settings.max_steps;
}

// Returns the next run of a trial that is waiting. Either its last run was lost or failed, or its first run
// never began.
std::optional<SlotDecision> waiting_run(const ScheduleSettings& settings, const History& history) {
  const auto waiting = std::ranges::find(history.trials(), TrialState::kWaiting, &Trial::state);
  if (waiting == history.trials().end()) return std::nullopt;
  const bool has_begun = waiting->run_count > 0;
  return SlotDecision{NextRun{.trial = waiting->number,
                              .until = has_begun ? waiting->until : first_until(settings, waiting->bracket)},
                      has_begun
                          ? fmt::format("again, as run {} did not get to its end", waiting->run_count - 1)
                          : "its first run"};
}

// For schedulers that never pause a trial. If a trial was paused for another reason, continues it. Otherwise
// starts a new trial.
std::optional<SlotDecision> next_in_order(const Slot& slot) {
  const auto paused = std::ranges::find(slot.trials, TrialState::kPaused, &Trial::state);
  if (paused != slot.trials.end())
    return SlotDecision{NextRun{.trial = paused->number, .until = paused->until}, "it was paused"};
  if (!slot.may_create) return std::nullopt;
  return SlotDecision{NewTrial{.bracket = 0, .until = first_until(slot.settings, 0)}, "a slot is free"};
}

std::optional<SlotDecision> next_of(const Slot& slot) {
  switch (slot.settings.kind) {
    case ScheduleSettings::Kind::kAsha: return next_of_asha(slot);
    case ScheduleSettings::Kind::kHyperband: return next_of_hyperband(slot);
    case ScheduleSettings::Kind::kPbt: return next_of_pbt(slot);
    case ScheduleSettings::Kind::kNone:
    case ScheduleSettings::Kind::kAshaStop:
    case ScheduleSettings::Kind::kMedian: break;
  }
  return next_in_order(slot);
}

// A trial is at its end when it has reported the objective's value for max_steps. A program may report other
// metrics of this step first. So a report of max_steps without the objective's value is not yet the end. But
// a report of any later step is, because then the value is not expected any more.
bool is_at_end(const ScheduleSettings& settings, const Trial& trial) {
  if (settings.max_steps == 0) return false;
  return newest_steps(settings.objective, trial).now >= settings.max_steps ||
         trial.newest_step() > settings.max_steps;
}

ReportDecision pause_at_rung(const ScheduleSettings& settings, const Trial& trial) {
  if (newest_steps(settings.objective, trial).now < trial.until)
    return {GoOn{trial.until}, fmt::format("on the way to step {}", trial.until)};
  return {Pause{}, fmt::format("paused at step {}", trial.until)};
}

Status check_steps(const ScheduleSettings& settings) {
  const bool needs_end =
      settings.kind != ScheduleSettings::Kind::kNone && settings.kind != ScheduleSettings::Kind::kMedian;
  if (settings.max_steps < 0)
    return failure(ErrorCode::kInvalidArgument, "--max-steps {}: give at least 1", settings.max_steps);
  if (needs_end && settings.max_steps == 0)
    return failure(ErrorCode::kInvalidArgument, "--scheduler {} needs --max-steps",
                   flag_value(settings.kind));
  if (settings.max_steps > (std::int64_t{1} << 62) / settings.trials)
    return failure(ErrorCode::kInvalidArgument, "--max-steps {}: too large for {} trials", settings.max_steps,
                   settings.trials);
  if (settings.kind == ScheduleSettings::Kind::kNone) return {};
  if (settings.grace_steps < 1)
    return failure(ErrorCode::kInvalidArgument, "--grace-steps {}: give at least 1", settings.grace_steps);
  if (settings.max_steps > 0 && settings.grace_steps > settings.max_steps)
    return failure(ErrorCode::kInvalidArgument, "--grace-steps {}: give at most --max-steps, which is {}",
                   settings.grace_steps, settings.max_steps);
  return {};
}

}  // namespace

double cost_of(Mode mode, double value) {
  if (std::isnan(value)) return kWorst;
  return mode == Mode::kMin ? value : -value;
}

double cost_at(const Objective& objective, const Trial& trial, std::int64_t step) {
  const std::optional<double> value = trial.value_at(objective.metric, step);
  return value ? cost_of(objective.mode, *value) : kWorst;
}

const std::vector<Measurement>& measured(const Objective& objective, const Trial& trial) {
  static const std::vector<Measurement> kNone;
  const auto found = trial.measured.find(objective.metric);
  return found == trial.measured.end() ? kNone : found->second;
}

Steps newest_steps(const Objective& objective, const Trial& trial) {
  const std::vector<Measurement>& values = measured(objective, trial);
  Steps steps;
  if (!values.empty()) steps.now = values.back().step;
  const auto before = trial.reached_before.find(objective.metric);
  if (before != trial.reached_before.end()) steps.before = before->second;
  return steps;
}

std::vector<std::int64_t> rungs_of(const ScheduleSettings& settings) {
  std::vector<std::int64_t> rungs;
  for (std::int64_t rung = settings.grace_steps; rung < settings.max_steps; rung *= settings.eta) {
    rungs.push_back(rung);
    if (rung > settings.max_steps / settings.eta) break;  // the product might be too large for a number
  }
  rungs.push_back(settings.max_steps);
  return rungs;
}

std::int64_t next_look(const ScheduleSettings& settings, std::int64_t step) {
  const std::int64_t next =
      (std::max<std::int64_t>(step, 0) / settings.grace_steps + 1) * settings.grace_steps;
  return settings.max_steps == 0 ? next : std::min(next, settings.max_steps);
}

bool has_arrived(const Trial& trial) {
  return trial.state == TrialState::kPaused || trial.is_over();
}

const Trial* best_paused(const Objective& objective, std::span<const Trial> trials, std::int64_t rung) {
  const Trial* best = nullptr;
  double best_cost = kWorst;
  for (const Trial& trial : trials) {
    if (trial.state != TrialState::kPaused || trial.until != rung) continue;
    const double cost = cost_at(objective, trial, rung);
    if (cost >= best_cost) continue;
    best = &trial;
    best_cost = cost;
  }
  return best;
}

Status check_schedule(const ScheduleSettings& settings) {
  const ScheduleSettings::Kind kind = settings.kind;
  if (settings.trials < 1)
    return failure(ErrorCode::kInvalidArgument, "--trials {}: give at least 1", settings.trials);
  if (Status steps = check_steps(settings); !steps) return steps;
  if (kind == ScheduleSettings::Kind::kNone) return {};
  if (settings.objective.metric.empty())
    return failure(ErrorCode::kInvalidArgument, "--scheduler {} needs --metric", flag_value(kind));
  const bool has_rungs = kind == ScheduleSettings::Kind::kAsha || kind == ScheduleSettings::Kind::kAshaStop ||
                         kind == ScheduleSettings::Kind::kHyperband;
  if (has_rungs && settings.eta < 2)
    return failure(ErrorCode::kInvalidArgument, "--eta {}: give at least 2", settings.eta);
  if (kind == ScheduleSettings::Kind::kPbt && settings.trials < 2)
    return failure(ErrorCode::kInvalidArgument, "--trials {}: --scheduler pbt needs at least 2",
                   settings.trials);
  return {};
}

SlotDecision next_for_slot(const ScheduleSettings& settings, const History& history, bool points_left) {
  if (auto again = waiting_run(settings, history)) return *again;
  const bool may_create = points_left && std::ssize(history.trials()) < settings.trials;
  const bool any_runs = history.running_count() > 0;
  const Slot slot{settings, history.trials(), may_create, any_runs};
  if (auto next = next_of(slot)) return *next;
  if (any_runs) return {Wait{}, "nothing can start before a running trial reports or ends"};
  return {Over{}, may_create || points_left ? "all trials are done" : "the search has no other point"};
}

ReportDecision after_report(const ScheduleSettings& settings, const History& history, std::int32_t number) {
  CHECK(number >= 0 && number < std::ssize(history.trials()), "trial {}", number);
  const Trial& trial = history.trials()[static_cast<std::size_t>(number)];
  if (is_at_end(settings, trial)) return {Stop{}, fmt::format("at its last step, {}", settings.max_steps)};
  switch (settings.kind) {
    case ScheduleSettings::Kind::kAsha:
    case ScheduleSettings::Kind::kHyperband: return pause_at_rung(settings, trial);
    case ScheduleSettings::Kind::kAshaStop: return report_to_asha_stop(settings, history.trials(), trial);
    case ScheduleSettings::Kind::kMedian: return report_to_median_stop(settings, history.trials(), trial);
    case ScheduleSettings::Kind::kPbt: return report_to_pbt(settings, history.trials(), trial);
    case ScheduleSettings::Kind::kNone: break;
  }
  return {GoOn{settings.max_steps}, "without a scheduler"};
}

}  // namespace muster::launcher::sweep
