// Records what a rank of a pipeline computed in a step, and when. Makes a profile of all ranks' records.
//
// Only the training thread uses PipelineTimes.
#pragma once

#include <muster/comm/group.h>
#include <muster/pipeline/pipeline_profile.h>
#include <vector>

#include "common/base/clock.h"
#include "common/pipeline/simulated_schedule.h"

namespace muster {

// Returns the median, or 0 if there are no values. If there are two middle values, returns the greater one.
double median_of(std::vector<double> values);

class PipelineTimes {
 public:
  // Records an instruction that ends now. Give `input_at` for a backward pass that computes all gradients in
  // one instruction. It is the time at which the gradient of the input was ready.
  void add(const Instruction& instruction, TimePoint begin, TimePoint input_at = {});
  void clear() { computed_.clear(); }
  // Returns the time between `begin` and `end` in which this rank did not compute.
  Duration waited(TimePoint begin, TimePoint end) const;
  // Returns the profile of the newest step over all ranks of the group. All ranks of the group must call this
  // together. A rank's number in the schedule is its rank in the group.
  PipelineProfile profile(const Schedule& schedule, const Group& group) const;

 private:
  struct Computed {
    Instruction instruction;
    TimePoint begin;
    TimePoint input_at;
    TimePoint end;
  };
  std::vector<Computed> computed_;
};

}  // namespace muster
