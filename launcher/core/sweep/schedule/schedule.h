// The scheduler decides which run a free slot gets next, and until which step. When a trial has reached that
// step, the scheduler decides what happens to the trial. There are these kinds: ASHA in two forms, Hyperband,
// the median rule, PBT, and none.
//
// The decisions depend only on the arguments of the functions: the same history gives the same decision.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "launcher/core/sweep/history/history.h"
#include "launcher/core/sweep/search/search.h"

namespace muster::launcher::sweep {

struct ScheduleSettings {
  enum class Kind { kNone, kAsha, kAshaStop, kHyperband, kMedian, kPbt };
  Kind kind = Kind::kNone;
  Objective objective{};
  std::int32_t trials = 1;     // how many are created; PBT: the size of the population
  std::int64_t max_steps = 0;  // R; 0: a trial ends by itself (only for kNone and kMedian)
  std::int64_t grace_steps =
      1;  // r: the first rung; for PBT and the median rule, the interval between two looks
  std::int32_t eta = 3;
  std::uint64_t seed = 0;
};

// Returns an error if a setting does not fit, for example if eta is below 2 or if grace_steps is above
// max_steps. The error is one line that names the flag.
Status check_schedule(const ScheduleSettings& settings);

// ---- A free slot ----
struct NewTrial {
  std::int32_t bracket = 0;
  std::int64_t until = 0;  // as in RunBegan
};
struct NextRun {  // of a trial that is paused, or waits for its first run or for another try
  std::int32_t trial = 0;
  std::int64_t until = 0;
};
struct Wait {};  // for the reports or ends of running trials
struct Over {};  // nothing is left to start, and nothing runs
struct SlotDecision {
  std::variant<NewTrial, NextRun, Wait, Over> what;
  std::string reason;
};
// Returns what a free slot does next. `points_left` says whether the searcher may have another point.
SlotDecision next_for_slot(const ScheduleSettings& settings, const History& history, bool points_left);

// ---- A report ----
struct GoOn {  // the scheduler looks at the trial again at step `until`; 0: at no step
  std::int64_t until = 0;
};
struct Pause {};
struct Stop {};
struct Exploit {  // PBT: take over the newest checkpoint of this trial
  std::int32_t from = 0;
};
struct ReportDecision {
  std::variant<GoOn, Pause, Stop, Exploit> what;
  std::string reason;
};
// Returns what to do with the running trial `trial` after its newest report. The history must already have
// this report. At R, the last step, returns Stop, because the trial is done.
ReportDecision after_report(const ScheduleSettings& settings, const History& history, std::int32_t trial);

// ---- Before the start ----
struct Rung {
  std::int32_t bracket = 0;
  std::int64_t steps = 0;  // at which trials are compared
  // How many trials reach the rung if no trial fails. For ASHA's stopping form and the median rule, this is
  // the most that can reach it.
  std::int32_t trials = 0;
};
struct Preview {
  std::vector<Rung> rungs;     // none: without max_steps
  std::int64_t steps = 0;      // of all trials together
  std::int64_t all_steps = 0;  // the same without a scheduler
};
Preview preview(const ScheduleSettings& settings);

}  // namespace muster::launcher::sweep
