// Finds the tensors of a module that DistributedDataParallel reduces or broadcasts. The tensors found share
// the module's memory.
#pragma once

#include <string>
#include <torch/nn/module.h>
#include <utility>
#include <vector>

namespace muster {

// The parameters in the order of named_modules(). A shared parameter is listed only once.
struct ReducedParameters {
  std::vector<torch::Tensor> tensors;
  std::vector<std::string> names;
  std::vector<bool> sparse;                                   // whether its module gives sparse gradients
  std::vector<std::pair<std::string, torch::Tensor>> frozen;  // parameters that are not reduced
};

// Returns the parameters that need a gradient. If there is none, or if they are on several kinds of devices,
// throws std::invalid_argument.
ReducedParameters parameters_to_reduce(const torch::nn::Module& module);

// Throws std::invalid_argument if the parameters and the job are on different kinds of devices. The message
// says what to write. Without this check, a module that was never moved would train on the CPU while the
// GPU is idle.
void require_on_device_of(const ReducedParameters& parameters, c10::Device job_device);

// Throws std::logic_error if a parameter that was frozen needs a gradient now, because nothing would reduce
// its gradient. The message says what to do.
void require_frozen(const ReducedParameters& parameters);

// Detaches each tensor and appends the result, which shares its memory. If a tensor occurs twice, it is
// appended only once.
void append_detached(const std::vector<torch::Tensor>& tensors, std::vector<torch::Tensor>& all);

}  // namespace muster
