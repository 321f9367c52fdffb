// The best trials of a sweep, and the command line that trains with the values of such a trial.
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

// Returns the newest value that the trial has for the metric. Returns nullopt if the trial does not count.
std::optional<double> judged_value(const Trial& trial, const std::string& metric);

// Returns the numbers of some trials, the best one first. Equal trials are in the order of their numbers.
// - If there is one objective, these are all trials that count.
// - If there are several objectives, these are the trials of the Pareto front, sorted by the first objective.
//   A trial belongs to the front if no other trial is at least as good in all objectives and better in one.
std::vector<std::int32_t> best_trials(const History& history, const std::vector<Objective>& objectives);

// Returns a command such as "launch --device cpu". It is `launch` with the flags that make a job run as the
// trials did. The sweep got these flags on its command line, or as lines of a file. It leaves out
// - variables, because they apply to every launch;
// - flags about the output;
// - --checkpoint-dir, because a training would continue from the checkpoints that are there.
std::string launch_command(const Settings& settings, const SweepOptions& options);

// Returns the trial's variables as flags, such as " --env MUSTER_PARAM_LR=0.1 --env MUSTER_TRIAL_DIR=...". If
// the program gets all values in its arguments, it needs no variables, and this returns "". MUSTER_TRIAL is
// left out, because the launch is not a trial.
std::string variables_as_flags(const std::vector<std::string>& program, const Space& space,
                               const Point& point, const TrialPlace& place);

// The program with the values of this point, as a shell reads it (program_of() in sweep_options.h).
Expected<std::string> training_command(const std::vector<std::string>& program, const Space& space,
                                       const Point& point, const TrialPlace& place = {});

}  // namespace muster::launcher::sweep
