// Before anything is sent about a model: is it the same on all ranks of its group?
//
// Collective, over CPU tensors whatever the model's device; ranks that agree exchange 32 bytes each.
#pragma once

#include <muster/comm/job.h>
#include <muster/parallel/distributed_data_parallel_options.h>
#include <string>
#include <torch/nn/module.h>

#include "runtime/parallel/model_description.h"

namespace muster {

// Parameters, buffers if they are broadcast, and the options that decide what is sent when.
ModelDescription describe_model(const torch::nn::Module& module,
                                const DistributedDataParallelOptions& options);

// std::invalid_argument, the same on all ranks, names the first difference. `what` is described: "a pipeline:
// it".
void require_equal_on_all_ranks(const Group& group, const std::string& what,
                                const ModelDescription& description);

}  // namespace muster
