// What a rank of a pipeline computed in a step, and when; and all ranks' together as a profile.
//
// For the training thread.
#pragma once

#include <muster/comm/group.h>
#include <muster/pipeline/pipeline_profile.h>
#include <vector>

#include "common/base/clock.h"
#include "common/pipeline/simulated_schedule.h"

namespace muster {

// The greater of the two in the middle of an even number; 0 of none.
double median_of(std::vector<double> values);

class PipelineTimes {
 public:
  // An instruction that has ended now. Of a whole backward `input_at`: when its input's gradient was there.
  void add(const Instruction& instruction, TimePoint begin, TimePoint input_at = {});
  void clear() { computed_.clear(); }
  // What was not computing between the two.
  Duration waited(TimePoint begin, TimePoint end) const;
  // Of the newest step, of all ranks in the group, which have the places of the schedule's. Collective.
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
