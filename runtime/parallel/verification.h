// Checks that a model is the same on all ranks of its group, before any of its tensors are sent.
//
// The check is a collective with CPU tensors, whatever the model's device. If all ranks agree, each sends
// only 32 bytes.
#pragma once

#include <muster/comm/job.h>
#include <muster/parallel/distributed_data_parallel_options.h>
#include <string>
#include <torch/nn/module.h>

#include "runtime/parallel/model_description.h"

namespace muster {

// Describes the parameters, the buffers if they are broadcast, and the options that affect communication.
ModelDescription describe_model(const torch::nn::Module& module,
                                const DistributedDataParallelOptions& options);

// If the descriptions differ, throws the same std::invalid_argument on all ranks. The exception names the
// first difference. `what` is the subject of its message, such as "the pipeline".
void require_equal_on_all_ranks(const Group& group, const std::string& what,
                                const ModelDescription& description);

}  // namespace muster
