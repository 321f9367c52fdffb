// Where the time of a pipeline's step went: computing, and what ranks waited for.
//
// A rank that computes nothing waits, and the schedule is simulated to find out for what: with stages that
// take equal times it still waits for its first microbatch and after its last one (the bubble); with the
// measured times it waits for slower stages too (imbalance); the rest is what activations and gradients take
// on their way, and whatever else held ranks up (link). Pure.
#pragma once

#include <vector>

#include "common/pipeline/simulated_schedule.h"

namespace muster {

struct LostTime {   // the mean over the ranks
  double step = 0;  // from the first instruction's beginning to the last one's end
  double compute = 0;
  double bubble = 0;
  double imbalance = 0;
  double link = 0;
};

// `times`: of each stage. `measured`: what each rank of the schedule computed, in the same unit.
LostTime lost_time(const Schedule& schedule, const std::vector<StageTimes>& times,
                   const std::vector<std::vector<TimedInstruction>>& measured);

}  // namespace muster
