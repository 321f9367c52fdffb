// Divides the time of a pipeline's step into computing and the reasons for which ranks waited.
//
// Whenever a rank does not compute, it waits. Simulating the schedule shows why. With stages that take equal
// times, a rank still waits before its first microbatch and after its last (bubble). With the measured times,
// it also waits for slower stages (imbalance). All other waiting counts as link: transfers of activations and
// gradients, and any other delay. The function has no side effects.
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

// `times` has the computing times of each stage. `measured` has what each rank computed and when, in
// the same unit.
LostTime lost_time(const Schedule& schedule, const std::vector<StageTimes>& times,
                   const std::vector<std::vector<TimedInstruction>>& measured);

}  // namespace muster
