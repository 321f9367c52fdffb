// Records what a rank of a pipeline computed in a step, and when; makes a profile of all ranks' records.
//
// Use PipelineTimes on the training thread.
#pragma once

#include <muster/comm/group.h>
#include <muster/pipeline/pipeline_profile.h>
#include <vector>

#include "common/base/clock.h"
#include "common/pipeline/simulated_schedule.h"

namespace muster {

// Returns the median; 0 if there are no values. An even number has two middle values: takes the greater.
double median_of(std::vector<double> values);

class PipelineTimes {
 public:
  // Records an instruction that ends now. `input_at`, for a whole backward pass: when its input's gradient
  // was ready.
  void add(const Instruction& instruction, TimePoint begin, TimePoint input_at = {});
  void clear() { computed_.clear(); }
  // Returns the time between `begin` and `end` in which this rank did not compute.
  Duration waited(TimePoint begin, TimePoint end) const;
  // Returns the profile of the newest step over all ranks of the group. A rank's place in the group is its
  // number in the schedule. All ranks of the group call it.
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
