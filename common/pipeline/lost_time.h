// Divides the time of a pipeline's step into computing and waiting, and divides the waiting by its reasons.
//
// A rank that does not compute waits. Two simulations of the schedule tell why:
// - In the first one, all stages take equal times. The rank still waits, for example before its first
//   microbatch and after its last one. That time is "bubble".
// - In the second one, the stages take the measured times. The rank waits longer, because of slower stages.
//   The additional time is "imbalance".
//
// All other waiting is "link": transfers of activations and gradients, and any other delay. The function has
// no side effects.
#pragma once

#include <vector>

#include "common/pipeline/simulated_schedule.h"

namespace muster {

struct LostTime {   // each time is the mean over the ranks
  double step = 0;  // from the first instruction's beginning to the last one's end
  double compute = 0;
  double bubble = 0;
  double imbalance = 0;
  double link = 0;
};

// `times` has the computing times of each stage. `measured` says for each rank which instructions it
// computed, and when. Both have the same unit.
LostTime lost_time(const Schedule& schedule, const std::vector<StageTimes>& times,
                   const std::vector<std::vector<TimedInstruction>>& measured);

}  // namespace muster
