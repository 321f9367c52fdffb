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

// Numbers of trials, the best one first: with one objective, all that count; with several, the Pareto front,
// that is the trials that no other one equals or beats in all objectives and beats in one. Equal
// trials are in the order of their numbers; a front is sorted by its first objective.
std::vector<std::int32_t> best_trials(const History& history, const std::vector<Objective>& objectives);

// "launch --device cpu": `launch` with the flags with which a job runs as the trials did. The sweep got them
// as flags or lines of a file; variables are left out, since they hold for every launch. So are flags that
// say what is printed, and --checkpoint-dir, because a training would go on from the checkpoints that are
// there.
std::string launch_command(const Settings& settings, const SweepOptions& options);

// The program with the values of this point, as a shell reads it (program_of() in sweep_options.h).
Expected<std::string> training_command(const std::vector<std::string>& program, const Space& space,
                                       const Point& point, const TrialPlace& place = {});

}  // namespace muster::launcher::sweep
