// The tensors of a module that DistributedDataParallel reduces or broadcasts: its parameters that need
// gradients, and the tensors of its state.
//
// Plain values for one thread; the tensors share the module's memory.
#pragma once

#include <string>
#include <torch/nn/module.h>
#include <utility>
#include <vector>

namespace muster {

// In the order of named_modules(). A parameter that modules share is listed once.
struct ReducedParameters {
  std::vector<torch::Tensor> tensors;
  std::vector<std::string> names;
  std::vector<bool> sparse;                                   // whether its module gives sparse gradients
  std::vector<std::pair<std::string, torch::Tensor>> frozen;  // the others, which are not reduced
};

// Throws std::invalid_argument if no parameter needs a gradient, or if those that do are on several kinds of
// devices.
ReducedParameters parameters_to_reduce(const torch::nn::Module& module);

// Throws std::invalid_argument, with the line to write, if the parameters are on another kind of device than
// the job's: a module that was never moved would train on the CPU while the GPU is idle.
void require_on_device_of(const ReducedParameters& parameters, c10::Device job_device);

// Throws std::logic_error, with the line to write, if a parameter that was frozen needs a gradient now: each
// rank would train it alone.
void require_frozen(const ReducedParameters& parameters);

// Appends the tensors, each tensor once, detached but in the same memory.
void append_detached(const std::vector<torch::Tensor>& tensors, std::vector<torch::Tensor>& all);

}  // namespace muster
