#include "launcher/core/sweep/history/history.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace muster::launcher::sweep {

namespace {

template <class... Cases>
struct PerEvent : Cases... {
  using Cases::operator()...;
};

bool is_known(const std::vector<Trial>& trials, std::int32_t number) {
  return number >= 0 && static_cast<std::size_t>(number) < trials.size();
}

template <class... Arguments>
std::unexpected<Error> cannot_follow(std::int32_t trial, fmt::format_string<Arguments...> format,
                                     Arguments&&... arguments) {
  return failure(ErrorCode::kCorrupt, "trial {}: {}", trial,
                 fmt::format(format, std::forward<Arguments>(arguments)...));
}

Status fits(const std::vector<Trial>& trials, const TrialCreated& created) {
  if (std::cmp_not_equal(created.trial, trials.size())) {
    return cannot_follow(created.trial, "created, but the next trial is number {}", trials.size());
  }
  if (created.bracket < 0) return cannot_follow(created.trial, "created in bracket {}", created.bracket);
  return {};
}

Status fits(const Trial& trial, const RunBegan& began) {
  if (trial.state != TrialState::kWaiting && trial.state != TrialState::kPaused) {
    return cannot_follow(trial.number, "run {} began, but the trial is {}", began.run, name_of(trial.state));
  }
  if (began.run != trial.run_count) {
    return cannot_follow(trial.number, "run {} began, but the next run is number {}", began.run,
                         trial.run_count);
  }
  if (began.until < 0)
    return cannot_follow(trial.number, "run {} began until step {}", began.run, began.until);
  return {};
}

Status fits(const Trial& trial, const Reported& reported) {
  if (trial.state != TrialState::kRunning) {
    return cannot_follow(trial.number, "reported step {}, but is {}", reported.step, name_of(trial.state));
  }
  if (reported.step < 0) return cannot_follow(trial.number, "reported step {}", reported.step);
  if (!std::isfinite(reported.at)) return cannot_follow(trial.number, "reported at {} s", reported.at);
  return {};
}

Status fits(const Trial& trial, const RunEnded& ended) {
  if (trial.state != TrialState::kRunning || ended.run != trial.run_count - 1) {
    return cannot_follow(trial.number, "run {} ended, but the trial is {} after {} runs", ended.run,
                         name_of(trial.state), trial.run_count);
  }
  if (!std::isfinite(ended.at))
    return cannot_follow(trial.number, "run {} ended at {} s", ended.run, ended.at);
  return {};
}

// The trial may be running or not, because the controller can record the end of the trial's run before this
// event or after it.
Status fits(const Trial& trial, const Exploited& exploited) {
  if (trial.is_over()) {
    return cannot_follow(trial.number, "took over trial {}, but is {}", exploited.from, name_of(trial.state));
  }
  if (exploited.from == exploited.trial) return cannot_follow(trial.number, "took over itself");
  if (exploited.step < 0) {
    return cannot_follow(trial.number, "took over step {} of trial {}", exploited.step, exploited.from);
  }
  return {};
}

TrialState state_after(RunEnd end, std::int32_t failures, RetryLimit limit) {
  switch (end) {
    case RunEnd::kFinished: return TrialState::kFinished;
    case RunEnd::kPaused: return TrialState::kPaused;
    case RunEnd::kStopped: return TrialState::kStopped;
    case RunEnd::kInfeasible: return TrialState::kInfeasible;
    case RunEnd::kFailed: return failures > limit.retries ? TrialState::kFailed : TrialState::kWaiting;
    case RunEnd::kLost:
    case RunEnd::kCancelled: return TrialState::kWaiting;
  }
  return TrialState::kWaiting;
}

// If RunBegan has no time, as in the history of another program, the run counts from its first report. If it
// has no reports, it counts from its end.
void note_begin(Trial& trial, double at) {
  if (std::exchange(trial.knows_begin, true)) return;
  trial.run_began_at = at;
  if (trial.run_count == 1) trial.began_at = at;
}

// Returns the step after which the next run of the trial continues. Returns -1 if that run begins anew. A
// paused trial has a checkpoint of its newest step, or has taken over the checkpoint of another trial. If the
// last run was lost or failed, returns the step at which that run began. That run may have saved a checkpoint
// of a later step, but the history does not know of this checkpoint.
std::int64_t step_of_checkpoint(const Trial& trial) {
  if (trial.state != TrialState::kPaused) return trial.counts_from;
  return trial.reached_step();
}

void forget_after(std::vector<Measurement>& series, std::int64_t step) {
  series.erase(std::ranges::upper_bound(series, step, {}, &Measurement::step), series.end());
}

void follow(Trial& trial, const RunBegan& began) {
  trial.counts_from = step_of_checkpoint(trial);
  trial.state = TrialState::kRunning;
  trial.run_count = began.run + 1;
  trial.until = began.until;
  trial.text.clear();
  trial.knows_begin = false;
  if (began.at > 0) note_begin(trial, began.at);
}

void follow(Trial& trial, const Reported& reported) {
  note_begin(trial, reported.at);
  // The first report after an exploit shows at which step the trial continues. The checkpoint that the trial
  // has taken over may be older than the other trial's newest report. Then the trial continues at a step
  // before that report.
  for (const auto& [metric, value] : reported.values)
    if (trial.old_metrics.erase(metric) > 0) forget_after(trial.measured[metric], reported.step - 1);
  for (const auto& [metric, series] : trial.measured)
    trial.reached_before[metric] = series.empty() ? -1 : series.back().step;
  for (const auto& [metric, value] : reported.values) {
    std::vector<Measurement>& series = trial.measured[metric];
    series.insert(std::ranges::upper_bound(series, reported.step, {}, &Measurement::step),
                  {.step = reported.step, .value = value});
  }
}

void follow(Trial& trial, const RunEnded& ended, RetryLimit limit) {
  note_begin(trial, ended.at);
  if (ended.end == RunEnd::kFailed) ++trial.failure_count;
  trial.state = state_after(ended.end, trial.failure_count, limit);
  trial.text = ended.text;
  trial.ended_at = ended.at;
  trial.busy += std::max(0.0, ended.at - trial.run_began_at);
}

void follow(Trial& trial, const Exploited& exploited) {
  trial.point = exploited.point;
  trial.exploits.push_back(exploited);
  trial.exploit_run = trial.run_count;
  trial.reached_before.clear();
  for (auto& [metric, series] : trial.measured) {
    trial.old_metrics.insert(metric);
    forget_after(series, exploited.step);
  }
  std::erase_if(trial.measured, [](const auto& each) { return each.second.empty(); });
}

}  // namespace

double time_of(const Event& event) {
  return std::visit(
      [](const auto& each) {
        if constexpr (requires { each.at; }) return each.at;
        return 0.0;
      },
      event);
}

std::string_view name_of(TrialState state) {
  switch (state) {
    case TrialState::kWaiting: return "waiting";
    case TrialState::kRunning: return "running";
    case TrialState::kPaused: return "paused";
    case TrialState::kFinished: return "finished";
    case TrialState::kStopped: return "stopped";
    case TrialState::kInfeasible: return "infeasible";
    case TrialState::kFailed: return "failed";
  }
  return "unknown";
}

bool Trial::is_over() const {
  return state == TrialState::kFinished || state == TrialState::kStopped ||
         state == TrialState::kInfeasible || state == TrialState::kFailed;
}

std::int64_t Trial::newest_step() const {
  std::int64_t step = -1;
  for (const auto& [metric, series] : measured) {
    if (!series.empty()) step = std::max(step, series.back().step);
  }
  return step;
}

std::int64_t Trial::reached_step() const {
  return std::max(newest_step(), exploits.empty() ? -1 : exploits.back().step);
}

bool Trial::has_value(const std::string& metric, std::int64_t step) const {
  const auto series = measured.find(metric);
  return series != measured.end() && std::ranges::binary_search(series->second, step, {}, &Measurement::step);
}

std::optional<double> Trial::newest(const std::string& metric) const {
  const auto series = measured.find(metric);
  if (series == measured.end() || series->second.empty()) return std::nullopt;
  return series->second.back().value;
}

std::optional<double> Trial::value_at(const std::string& metric, std::int64_t step) const {
  const auto series = measured.find(metric);
  if (series == measured.end()) return std::nullopt;
  const auto reached = std::ranges::lower_bound(series->second, step, {}, &Measurement::step);
  return reached == series->second.end() ? std::nullopt : std::optional(reached->value);
}

Status History::check(const Event& event) const {
  return std::visit(PerEvent{[this](const TrialCreated& created) { return fits(trials_, created); },
                             [this](const auto& other) -> Status {
                               if (!is_known(trials_, other.trial))
                                 return cannot_follow(other.trial, "was not created");
                               return fits(trials_[static_cast<std::size_t>(other.trial)], other);
                             },
                             [this](const Exploited& exploited) -> Status {
                               for (const std::int32_t trial : {exploited.trial, exploited.from}) {
                                 if (!is_known(trials_, trial))
                                   return cannot_follow(trial, "was not created");
                               }
                               return fits(trials_[static_cast<std::size_t>(exploited.trial)], exploited);
                             }},
                    event);
}

Status History::apply(const Event& event) {
  if (auto checked = check(event); !checked) return checked;
  const auto trial_of = [this](const auto& each) -> Trial& {
    return trials_[static_cast<std::size_t>(each.trial)];
  };
  std::visit(PerEvent{[this](const TrialCreated& created) {
                        trials_.push_back(
                            {.number = created.trial, .point = created.point, .bracket = created.bracket});
                      },
                      [&](const RunEnded& ended) { follow(trial_of(ended), ended, limit_); },
                      [&](const auto& other) { follow(trial_of(other), other); }},
             event);
  return {};
}

std::size_t History::running_count() const {
  return static_cast<std::size_t>(std::ranges::count(trials_, TrialState::kRunning, &Trial::state));
}

}  // namespace muster::launcher::sweep
