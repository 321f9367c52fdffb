// Before training, checks that the ranks of a pipeline agree on three things: the schedule, which rank has
// which stage, and which weights are tied.
#pragma once

#include <muster/pipeline/pipeline_schedule.h>
#include <muster/pipeline/pipeline_stage.h>
#include <string>
#include <vector>

#include "common/pipeline/schedule.h"
#include "runtime/pipeline/tied_weights.h"

namespace muster {

struct PipelineAgreement {
  Schedule schedule;
  std::vector<TiedWeight> tied;  // those on this rank
  // The names of all stages' parameters, in alphabetical order. They do not depend on where stages begin.
  std::vector<std::string> parameters;
  at::ScalarType norm_type = at::kFloat;  // can hold the norm over all parameters
};

// All ranks of the stages' group must call this. `stages` are this rank's, at least one. If the ranks
// disagree, or if something is impossible, throws the same std::invalid_argument on all ranks. The exception
// names the first problem.
PipelineAgreement agree_about_pipeline(const std::string& name, const std::vector<PipelineStage>& stages,
                                       int n_microbatches, const PipelineOptions& options);

[[noreturn]] void refuse_pipeline(const std::string& what);

}  // namespace muster
