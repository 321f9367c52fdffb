// Computes for a schedule when each instruction runs, how long everything takes, how long ranks are idle, and
// how much memory they need.
//
// A rank performs its instructions one after the other. If an instruction needs the result of another stage,
// it waits for the result. If that stage is on another rank, it also waits for the link between them. Two
// instructions that run together begin when both have their inputs. The functions only calculate, with times
// that were measured or estimated.
#pragma once

#include <vector>

#include "common/pipeline/schedule.h"

namespace muster {

// The times of one microbatch in one stage, in any unit. A backward pass that is not split takes input +
// weight.
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
  // The idle time of all ranks, divided by their whole time until the last rank ends. For GPipe and 1F1B with
  // p ranks, m microbatches and equal stages, it is `(p - 1) / (m + p - 1)`.
  double bubble_fraction = 0;
  // For each rank, the largest number of microbatches whose activations the rank holds at once. It is the sum
  // over the rank's stages. A stage holds a microbatch from the beginning of its forward pass to the end of
  // its last backward pass. In a V-shaped schedule, a rank has stage i and the i-th stage from the end.
  // There, each stage counts half.
  std::vector<double> peak_activations;
};

// Simulates the schedule. `times` has the times of each stage. `link` is the time that passes from the end of
// an instruction until another rank can use its result. The schedule must have passed check_schedule().
SimulatedSchedule simulate_schedule(const Schedule& schedule, const std::vector<StageTimes>& times,
                                    double link = 0);

}  // namespace muster
