// Checks, before anything runs, that a schedule is a whole training step and cannot deadlock.
#pragma once

#include <optional>

#include "common/pipeline/schedule.h"

namespace muster {

struct ScheduleLimits {
  // The largest number of microbatches whose activations a rank may hold at once, counted over all stages of
  // the rank. Empty: no limit.
  std::optional<int> activations;
};

// Checks that
// - each stage is on one rank;
// - each stage does every microbatch's forward once, after the stage before has done it;
// - each stage does every microbatch's backward once, whole or in its two parts, after its own forward and
//   after the next stage's backward;
// - no rank waits forever;
// - each receive has its send, in the same order between two ranks;
// - a reduction follows the stage's last gradient, and a step follows the reduction.
// Checks sends and receives only if the schedule has any. The same holds for reductions and steps.
// kInvalidArgument names the first mistake, with rank, position and instruction.
Status check_schedule(const Schedule& schedule, const ScheduleLimits& limits = {});

}  // namespace muster
