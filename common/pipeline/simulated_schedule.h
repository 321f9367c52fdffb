// When each instruction of a schedule runs, and what it costs: time, idle time, memory.
//
// A rank does its instructions one after the other; one that needs what another stage has computed waits for
// that, and for the link if the stage is on another rank. Two that run together begin when both can. Pure
// arithmetic on times that were measured or are guessed.
#pragma once

#include <vector>

#include "common/pipeline/schedule.h"

namespace muster {

// Of one microbatch in one stage, in any unit. A backward as a whole takes input + weight.
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
  std::vector<std::vector<TimedInstruction>> ranks;  // what is computed
  double makespan = 0;
  // Idle share of all ranks' time until the last has ended: (p - 1) / (m + p - 1) for GPipe and 1F1B.
  double bubble_fraction = 0;
  // By rank: of how many microbatches in a stage it holds the activations, at most; they are held from the
  // beginning of the forward to the end of the last backward of it. In a V (each rank has stage i and the
  // i-th from behind) two stages count as one.
  std::vector<double> peak_activations;
};

// `times`: of each stage. `link`: from the end of an instruction to where another rank may use its result.
// Of a schedule that check_schedule() has found good.
SimulatedSchedule simulate_schedule(const Schedule& schedule, const std::vector<StageTimes>& times,
                                    double link = 0);

}  // namespace muster
