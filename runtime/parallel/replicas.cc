#include <ATen/ThreadLocalState.h>
#include <c10/core/DeviceGuard.h>
#include <exception>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <muster/parallel/data_parallel.h>
#include <stdexcept>
#include <thread>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/torch.h>

#include "runtime/torch_versions.h"

namespace muster::detail {
namespace {

// Sums the gradients of a parameter's copies, and passes the sum to the parameter.
class SumGradients : public torch::autograd::Node {
 public:
  SumGradients(torch::autograd::edge_list&& parameter, c10::Device device)
      : Node(std::move(parameter)), device_(device) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    at::Tensor sum;
    for (const at::Tensor& gradient : gradients) {
      if (!gradient.defined()) continue;  // the loss does not depend on this copy
      sum = sum.defined() ? sum + gradient.to(device_) : gradient.to(device_);
    }
    return {sum};
  }

 private:
  c10::Device device_;
};

template <class Tensors>
std::vector<at::Tensor> values_of(const Tensors& named) {
  std::vector<at::Tensor> values;
  for (const auto& each : named) values.push_back(each.value());
  return values;
}

}  // namespace

Replicas::Replicas(std::shared_ptr<torch::nn::Module> module, std::vector<c10::Device> devices)
    : devices_(std::move(devices)) {
  if (devices_.empty()) throw std::invalid_argument("DataParallel: no device is given");
  for (const auto& tensor : module->parameters())
    if (tensor.device() != devices_.front())
      throw std::invalid_argument(
          fmt::format("DataParallel: a parameter is on {}; all must be on the first device, {}",
                      tensor.device().str(), devices_.front().str()));
  replicas_.push_back(std::move(module));
  for (std::size_t i = 1; i < devices_.size(); ++i) replicas_.push_back(replicas_[0]->clone(devices_[i]));
}

std::size_t Replicas::count_parts(const std::vector<at::Tensor>& inputs) const {
  if (inputs.empty()) throw std::invalid_argument("DataParallel: none of the inputs is a tensor");
  for (const auto& input : inputs)
    if (input.dim() == 0 || input.size(0) != inputs[0].size(0))
      throw std::invalid_argument(
          fmt::format("DataParallel: inputs have the shapes [{}] and [{}]; "
                      "the first dimension of every tensor must be the batch (pass a number as a number)",
                      fmt::join(inputs[0].sizes(), ", "), fmt::join(input.sizes(), ", ")));
  return inputs[0].chunk(static_cast<std::int64_t>(devices_.size())).size();
}

std::vector<at::Tensor> Replicas::scatter(const at::Tensor& input) const {
  auto parts = input.chunk(static_cast<std::int64_t>(devices_.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = parts[i].to(devices_[i], /*non_blocking=*/true);
  return parts;
}

void Replicas::refresh(std::size_t count) const {
  const auto parameters = values_of(replicas_[0]->named_parameters());
  const auto buffers = values_of(replicas_[0]->named_buffers());
  const auto modules = replicas_[0]->modules();
  std::vector<std::vector<at::Tensor>> copies(count);
  for (std::size_t i = 1; i < count; ++i) {
    copies[i] = values_of(replicas_[i]->named_parameters());
    for (std::size_t k = 0; k < parameters.size(); ++k)
      copies[i][k].set_data(parameters[k].detach().to(devices_[i], /*non_blocking=*/true));
    auto own_buffers = values_of(replicas_[i]->named_buffers());
    for (std::size_t k = 0; k < own_buffers.size(); ++k)  // always a copy: the forward pass can write to it
      own_buffers[k].set_data(buffers[k].to(devices_[i], /*non_blocking=*/true, /*copy=*/true));
    const auto own_modules = replicas_[i]->modules();
    for (std::size_t k = 0; k < own_modules.size(); ++k) own_modules[k]->train(modules[k]->is_training());
  }
  if (!torch::GradMode::is_enabled()) return;
  // Makes autograd treat the copies as results of the parameters: SumGradients sums the copies' gradients and
  // passes the sum on to the parameter.
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    if (!parameters[k].requires_grad()) continue;
    const auto sum = compat::make_node<SumGradients>(
        torch::autograd::collect_next_edges(std::vector<at::Tensor>{parameters[k]}), devices_[0]);
    for (std::size_t i = 1; i < count; ++i) torch::autograd::set_history(copies[i][k], sum);
  }
}

at::Tensor Replicas::run(std::size_t count, const std::function<at::Tensor(std::size_t)>& forward) const {
  refresh(count);
  std::vector<at::Tensor> outputs(count);
  std::vector<std::exception_ptr> thrown(count);
  const at::ThreadLocalState state;  // gradient mode, autocast, and so on
  const auto run_one = [&](std::size_t index) {
    try {
      const at::ThreadLocalStateGuard same(state);
      const c10::OptionalDeviceGuard device(devices_[index]);
      outputs[index] = forward(index);
    } catch (...) {
      thrown[index] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < count; ++i) threads.emplace_back(run_one, i);
    run_one(0);
  }
  for (const auto& exception : thrown)
    if (exception) std::rethrow_exception(exception);
  for (auto& output : outputs) output = (output.dim() == 0 ? output.unsqueeze(0) : output).to(devices_[0]);
  return at::cat(outputs);
}

}  // namespace muster::detail
