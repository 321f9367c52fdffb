// What of a module DistributedDataParallel reduces and sends about: its parameters that need gradients, and
// the tensors of its state.
//
// Plain values for one thread; the tensors are handles on the module's own.
#pragma once

#include <string>
#include <torch/nn/module.h>
#include <vector>

namespace muster {

// In the order of named_modules(), each once even if modules share it.
struct ReducedParameters {
  std::vector<torch::Tensor> tensors;
  std::vector<std::string> names;
  std::vector<bool> sparse;  // its module gives sparse gradients
};

// std::invalid_argument if there is none, or they are on several kinds of devices.
ReducedParameters parameters_to_reduce(const torch::nn::Module& module);

// The same storage outside of autograd, each tensor once.
void append_detached(const std::vector<torch::Tensor>& tensors, std::vector<torch::Tensor>& all);

}  // namespace muster
