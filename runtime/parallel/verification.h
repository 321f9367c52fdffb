// Checks that a model is the same on all ranks of its group, before any of its tensors are sent.
//
// Collective; uses CPU tensors for a model on any device. Ranks that agree exchange 32 bytes each.
#pragma once

#include <muster/comm/job.h>
#include <muster/parallel/distributed_data_parallel_options.h>
#include <string>
#include <torch/nn/module.h>

#include "runtime/parallel/model_description.h"

namespace muster {

// Describes the parameters, the buffers if they are broadcast, and the options that affect the messages.
ModelDescription describe_model(const torch::nn::Module& module,
                                const DistributedDataParallelOptions& options);

// Throws std::invalid_argument, the same on all ranks, which names the first difference.
// `what`: the subject of the message, such as "the pipeline".
void require_equal_on_all_ranks(const Group& group, const std::string& what,
                                const ModelDescription& description);

}  // namespace muster
