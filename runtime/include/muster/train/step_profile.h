// Where the time of a training's steps went, on all ranks: what to look at when it is slower than it should
// be.
//
//   const auto profile = muster::step_profile(job);  // after the loop
//   if (job.rank() == 0) std::fputs(profile.table().c_str(), stdout);
//
// The runtime measures by itself: a DataLoader the time in which training waits for it ("data"), a
// DistributedDataParallel, a metric and Job::barrier() the time in which they wait for other ranks
// ("communicate"), a Checkpointer the time in which training stands still ("checkpoint"), a muster::section
// its own; the rest is "compute". A step ends with Checkpointer::step() or muster::step(); what comes
// before the first such call is not counted. What is reduced while a backward pass computes costs no time and
// is in no part. Of a model on GPUs the reduction is in "compute": the program does not wait for it. Under
// `launch` the same stands in report.json, without a call.
#pragma once

#include <cstdint>
#include <muster/comm/job.h>
#include <string>
#include <vector>

namespace muster {

struct StepPart {
  std::string name;
  double mean_ms = 0;     // of a step, over all ranks
  double share = 0;       // of the step, 0 to 1
  double longest_ms = 0;  // on the rank that spends the most on it
  int longest_rank = 0;   // in the job
};

struct StepProfile {
  int ranks = 0;           // that have made steps
  std::int64_t steps = 0;  // counted
  double step_ms = 0;      // mean over all ranks
  // data, compute, communicate, checkpoint, then sections; without those of no time.
  std::vector<StepPart> parts;

  double share_of(const std::string& name) const;  // 0 if there is no such part
  std::string table() const;                       // some lines; empty if no step was counted
};

// Of all steps so far of the members, the same on all. Collective.
StepProfile step_profile(const Group& group);

}  // namespace muster
