// The flags of `launch sweep`; launcher/core/sweep/sweep_options.cc reads those of `sweep run`.
#include "launcher/core/settings/flags.h"

namespace muster::launcher {

namespace {

using enum Treatment;

constexpr Flag kSweepRunFlags[] = {
    {"space", 0, "NAME=KIND[:...],...", kOption,
     "The parameters: uniform:LOW:HIGH, loguniform:LOW:HIGH, quniform:LOW:HIGH:STEP, int:LOW:HIGH, "
     "int-log:LOW:HIGH, choice:A:B..., constant:A or normal:MEAN:SD. May be repeated."},
    {"constraint", 0, "EXPRESSION", kOption,
     "Only points for which this is true, such as 'units * layers <= 512'. May be repeated."},
    {"metric", 0, "NAME[:min|max],...", kOption,
     "The values that trials report, and that the sweep optimizes; the first one guides search and scheduler."},
    {"mode", 0, "min|max", kOption, "Whether the smallest or the largest value is best (default min)."},
    {"search", 0, "grid|random|sobol|tpe|bohb", kOption, "How points are chosen (default random)."},
    {"scheduler", 0, "none|asha|asha-stop|hyperband|median|pbt", kOption,
     "How trials compete. asha pauses a trial at each rung and resumes the best from their checkpoints; "
     "asha-stop never pauses (default none)."},
    {"max-steps", 0, "R", kOption, "The most steps of a trial, counted as the trials report them."},
    {"grace-steps", 0, "r", kOption,
     "Steps before the scheduler first compares a trial; for median and pbt also between two comparisons "
     "(default 1)."},
    {"eta", 0, "N", kOption,
     "One of N trials goes on to the next rung, which has N times the steps (default 3)."},
    {"trials", 0, "N", kOption, "How many trials there are (default: all points of a grid, otherwise 16)."},
    {"parallel", 0, "K", kOption,
     "How many trials run at once (default: as many as GPUs or hosts allow, otherwise one for each core). "
     "0: only make the sweep, which needs no program, for `sweep ask` and `sweep tell`. `sweep resume` takes another number for that time."},
    {"nodes-per-trial", 0, "n", kOption, "Nodes of each trial (default 1)."},
    {"gpus-per-trial", 0, "g", kOption,
     "Workers, and GPUs if there are any, on each node of a trial (default 1)."},
    {"trial-retries", 0, "N", kOption,
     "How often a trial is tried again after a failure of its own (default 0). "
     "A lost node does not count, and a trial that runs out of memory is not tried again."},
    {"time-budget", 0, "DURATION", kOption,
     "End the sweep after this time. `sweep resume` goes on with it, for as long again, "
     "or for the time that it is given."},
    {"seed", 0, "S", kOption, "Seed of all random choices (default 0)."},
    {"step-time", 0, "DURATION", kOption, "With preview: how long a step of a trial takes."},
    {"sweep-dir", 0, "DIR", kOption, "Directory of the sweep, on a local disk (default sweeps/TIME)."},
};

}  // namespace

std::span<const Flag> sweep_run_flags() {
  return kSweepRunFlags;
}

}  // namespace muster::launcher
