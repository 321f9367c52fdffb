// Computes when each instruction of a schedule runs, and its cost: time, idle time, memory.
//
// A rank performs its instructions one after the other. An instruction that needs another stage's result
// waits for the result, and for the link if that stage is on another rank. Two instructions that run together
// begin when both have their inputs. The functions only calculate with measured or estimated times.
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
  std::vector<std::vector<TimedInstruction>> ranks;  // only instructions that compute
  double makespan = 0;
  // The ranks' idle time divided by all their time until the last rank ends. For GPipe and 1F1B with p ranks,
  // m microbatches and equal stages: `(p - 1) / (m + p - 1)`.
  double bubble_fraction = 0;
  // For each rank: the most activations it holds at once, as a number of microbatches, summed over its
  // stages. A stage holds a microbatch from the beginning of its forward to the end of its last backward. In
  // a V-shaped schedule (each rank has stage i and the i-th stage from the end), each stage counts half.
  std::vector<double> peak_activations;
};

// `times` has the times of each stage. `link` is the time from the end of an instruction until another rank
// can use its result. The schedule must have passed check_schedule().
SimulatedSchedule simulate_schedule(const Schedule& schedule, const std::vector<StageTimes>& times,
                                    double link = 0);

}  // namespace muster
