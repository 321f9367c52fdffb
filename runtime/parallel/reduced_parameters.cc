#include "runtime/parallel/reduced_parameters.h"

#include <fmt/format.h>
#include <stdexcept>
#include <torch/nn/modules/embedding.h>
#include <unordered_set>

namespace muster {

ReducedParameters parameters_to_reduce(const torch::nn::Module& module) {
  ReducedParameters parameters;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& entry : module.named_modules("", /*include_self=*/true)) {
    const auto* embedding = entry.value()->as<torch::nn::EmbeddingImpl>();
    const auto* bag = entry.value()->as<torch::nn::EmbeddingBagImpl>();
    const bool sparse =
        (embedding != nullptr && embedding->options.sparse()) || (bag != nullptr && bag->options.sparse());
    for (const auto& parameter : entry.value()->named_parameters(/*recurse=*/false)) {
      if (!seen.insert(parameter.value().unsafeGetTensorImpl()).second) continue;
      const std::string name = entry.key().empty() ? parameter.key() : entry.key() + "." + parameter.key();
      if (!parameter.value().requires_grad()) {
        parameters.frozen.emplace_back(name, parameter.value());
        continue;
      }
      parameters.tensors.push_back(parameter.value());
      parameters.names.push_back(name);
      parameters.sparse.push_back(sparse);
    }
  }
  if (parameters.tensors.empty())
    throw std::invalid_argument(
        "DistributedDataParallel: the module has no parameter that requires a gradient");
  for (const auto& tensor : parameters.tensors)
    if (tensor.device().type() != parameters.tensors.front().device().type())
      throw std::invalid_argument(
          "DistributedDataParallel: the module's parameters are on CPU and GPU; move all to one kind of device");
  return parameters;
}

void require_on_device_of(const ReducedParameters& parameters, c10::Device job_device) {
  const c10::Device here = parameters.tensors.front().device();
  if (here.type() == job_device.type()) return;
  throw std::invalid_argument(
      fmt::format("DistributedDataParallel: the module is on {}, and this job's device is {}: "
                  "write net->to(job.device()) before it is wrapped{}",
                  here.str(), job_device.str(),
                  here.is_cpu() ? " (to train on CPUs, set CUDA_VISIBLE_DEVICES to nothing)" : ""));
}

void require_frozen(const ReducedParameters& parameters) {
  for (const auto& [name, tensor] : parameters.frozen) {
    if (tensor.requires_grad())
      throw std::logic_error(
          fmt::format("DistributedDataParallel: '{}' was frozen when the module was wrapped and learns now; "
                      "nothing would reduce its gradient. Wrap the module before freeze() with "
                      ".find_unused_parameters = true, or again after unfreeze()",
                      name));
  }
}

void append_detached(const std::vector<torch::Tensor>& tensors, std::vector<torch::Tensor>& all) {
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& tensor : tensors)
    if (tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second) all.push_back(tensor.detach());
}

}  // namespace muster
