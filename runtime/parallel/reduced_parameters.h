// What of a module DistributedDataParallel reduces and sends about: its parameters that need gradients, and
// the tensors of its state.
//
// Plain values for one thread; the tensors are handles on the module's own.
#pragma once

#include <string>
#include <torch/nn/module.h>
#include <utility>
#include <vector>

namespace muster {

// In the order of named_modules(), each once even if modules share it.
struct ReducedParameters {
  std::vector<torch::Tensor> tensors;
  std::vector<std::string> names;
  std::vector<bool> sparse;                                   // its module gives sparse gradients
  std::vector<std::pair<std::string, torch::Tensor>> frozen;  // the others, which are not reduced
};

// std::invalid_argument if there is none, or they are on several kinds of devices.
ReducedParameters parameters_to_reduce(const torch::nn::Module& module);

// std::invalid_argument, with what to write, if they are on another kind of device than the job's: a module
// that was never moved would train on the CPU beside an idle GPU.
void require_on_device_of(const ReducedParameters& parameters, c10::Device job_device);

// std::logic_error, with what to write, if a parameter learns that was frozen: each rank would train it
// alone.
void require_frozen(const ReducedParameters& parameters);

// The same storage outside of autograd, each tensor once.
void append_detached(const std::vector<torch::Tensor>& tensors, std::vector<torch::Tensor>& all);

}  // namespace muster
