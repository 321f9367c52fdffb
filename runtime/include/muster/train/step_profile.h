// Shows where the time of a training's steps went, on all ranks: the first thing to look at when a training
// is slow.
//
//   const auto profile = muster::step_profile(job);  // after the loop
//   if (job.rank() == 0) std::fputs(profile.table().c_str(), stdout);
//
// The runtime measures by itself:
// - "data": the training waits for a DataLoader.
// - "communicate": a DistributedDataParallel, a metric or Job::barrier() waits for other ranks.
// - "checkpoint": the training waits for a Checkpointer.
// - a muster::section: its own time, under its own name.
// - "compute": the rest.
// A step ends with Checkpointer::step() or muster::step(). Time counts from the end of
// Checkpointer::restore(). If the program does not call restore(), time counts from the first call of step().
// Reduction that overlaps with a backward pass costs no time and is in no part. On GPUs the reduction is in
// "compute", because the program does not wait for it. Under `launch`, report.json has the same numbers, even
// if the program does not call step_profile().
#pragma once

#include <cstdint>
#include <muster/comm/job.h>
#include <string>
#include <vector>

namespace muster {

struct StepPart {
  std::string name;
  double mean_ms = 0;     // per step, over all ranks
  double share = 0;       // fraction of the step, 0 to 1
  double longest_ms = 0;  // on the rank that spends the most time on it
  int longest_rank = 0;   // its rank in the job
};

struct StepProfile {
  int ranks = 0;           // that have completed steps
  std::int64_t steps = 0;  // steps counted
  double step_ms = 0;      // mean over all ranks
  // In the order "data", "compute", "communicate", "checkpoint", and then the sections. Parts that took no
  // time are left out.
  std::vector<StepPart> parts;

  double share_of(const std::string& name) const;  // 0 if there is no such part
  std::string table() const;                       // several lines; empty if no step was counted
};

// Collective. Returns the profile of all steps so far, over all members of the group. All members get the
// same result.
StepProfile step_profile(const Group& group);

}  // namespace muster
