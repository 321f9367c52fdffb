// The ranks of a pipeline agree before they train: on the schedule, on which rank has which stage, and on
// which weights are tied.
//
// Collective over the group of the stages.
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
  std::vector<TiedWeight> tied;  // this rank's
  // The names of all stages' parameters, in alphabetical order: the same for every cut.
  std::vector<std::string> parameters;
  at::ScalarType norm_type = at::kFloat;  // can hold a norm over all of them
};

// `stages`: this rank's, at least one. Throws the same std::invalid_argument on all ranks. It names the first
// thing that the ranks do not agree on, or that is not possible.
PipelineAgreement agree_about_pipeline(const std::string& name, const std::vector<PipelineStage>& stages,
                                       int n_microbatches, const PipelineOptions& options);

[[noreturn]] void refuse_pipeline(const std::string& what);

}  // namespace muster
