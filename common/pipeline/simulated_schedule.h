// Computes when each instruction of a schedule runs, and its cost: time, idle time, memory.
//
// A rank performs its instructions one after the other. An instruction that needs another stage's result
// waits for the result, and for the link if that stage is on another rank. Two instructions that run together
// begin when both can. Pure arithmetic on measured or estimated times.
#pragma once

#include <vector>

#include "common/pipeline/schedule.h"

namespace muster {

// The times of one microbatch in one stage, in any unit. A whole backward takes input + weight.
struct StageTimes {
  double forward = 1;
  double input = 1;
  double weight = 1;
};

struct TimedInstruction {
  Instruction instruction;
  double begin = 0;
  double end = 0;
};

struct SimulatedSchedule {
  std::vector<std::vector<TimedInstruction>> ranks;  // only those that compute
  double makespan = 0;
  // Idle share of all ranks' time until the last one ends: for GPipe and 1F1B with p ranks and m microbatches
  // `(p - 1) / (m + p - 1)`.
  double bubble_fraction = 0;
  // By rank: the most microbatches whose activations it holds at once, counted per stage, from the beginning
  // of the forward to the end of the last backward. In a V (each rank has stage i and the i-th stage from the
  // end) two stages count as one.
  std::vector<double> peak_activations;
};

// `times`: of each stage. `link`: the time from the end of an instruction until another rank may use its
// result. The schedule must have passed check_schedule().
SimulatedSchedule simulate_schedule(const Schedule& schedule, const std::vector<StageTimes>& times,
                                    double link = 0);

}  // namespace muster
