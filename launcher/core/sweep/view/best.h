// The best trials of a sweep, and the command line that trains one.
//
// A trial is judged by its newest value of a metric. Trials that are infeasible or have failed do not count,
// and neither do values that are not finite. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "launcher/core/sweep/history/history.h"
#include "launcher/core/sweep/search/search.h"
#include "launcher/core/sweep/space/space.h"
#include "launcher/core/sweep/sweep_options.h"

namespace muster::launcher::sweep {

// The trial's newest value of the metric; nullopt: the trial does not count.
std::optional<double> judged_value(const Trial& trial, const std::string& metric);

// Returns numbers of trials, the best one first; equal trials are in the order of their numbers.
// - One objective: all trials that count.
// - Several objectives: the Pareto front, sorted by the first objective. No other trial beats one of these in
//   one objective and equals or beats it in all others.
std::vector<std::int32_t> best_trials(const History& history, const std::vector<Objective>& objectives);

// "launch --device cpu": `launch` with the flags that make a job run as the trials did. The sweep got them as
// flags or as lines of a file. Leaves out
// - variables, because they apply to every launch;
// - flags about the output;
// - --checkpoint-dir, because a training would continue from the checkpoints that are there.
std::string launch_command(const Settings& settings, const SweepOptions& options);

// " --env MUSTER_PARAM_LR=0.1 --env MUSTER_TRIAL_DIR=...": the trial's variables as flags, for a program that
// does not get all values in its arguments; otherwise "". Leaves out MUSTER_TRIAL, because the launch is no
// trial.
std::string variables_as_flags(const std::vector<std::string>& program, const Space& space,
                               const Point& point, const TrialPlace& place);

// The program with the values of this point, as a shell reads it (program_of() in sweep_options.h).
Expected<std::string> training_command(const std::vector<std::string>& program, const Space& space,
                                       const Point& point, const TrialPlace& place = {});

}  // namespace muster::launcher::sweep
