// What the ranks of a pipeline agree about before they train: the schedule, who has which stage, and which
// weights are tied.
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
  std::vector<TiedWeight> tied;  // of this rank
};

// `stages`: of this rank, at least one. std::invalid_argument, the same on all ranks, names the first thing
// about which they do not agree, or which cannot be.
PipelineAgreement agree_about_pipeline(const std::string& name, const std::vector<PipelineStage>& stages,
                                       int n_microbatches, const PipelineOptions& options);

[[noreturn]] void refuse_pipeline(const std::string& what);

}  // namespace muster
