// A summary of a model: its layers, their output shapes, parameters and memory, as Keras' summary() and
// Python's torchinfo.
//
//   const auto summary = muster::summary(net, {64, 1, 28, 28});  // or example inputs: summary(net, images)
//   if (job.rank() == 0) std::fputs(summary.table().c_str(), stdout);
//
// Shapes come from a forward pass in eval mode, which leaves the model unchanged. LibTorch has no hooks on
// modules, so the summary knows only the shapes of torch::nn's layers with parameters, of everything inside a
// Sequential, and of the model itself. Only one thread at a time may summarize a model.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <muster/comm/detail/tensors.h>
#include <optional>
#include <string>
#include <torch/nn/module.h>
#include <type_traits>
#include <vector>

namespace muster {

struct LayerSummary {
  std::string name;                                         // "blocks.0.attention"; empty: the model itself
  std::string type;                                         // "Conv2d"
  int depth = 0;                                            // 0: the model itself
  std::optional<std::vector<std::int64_t>> output_shape{};  // empty: unknown
  // The number of the layer's own parameters, without those of the layers inside it. A shared parameter is
  // counted where it occurs first.
  std::int64_t parameters = 0;
  std::int64_t trainable = 0;
};

struct ModelSummary {
  std::vector<LayerSummary> layers{};  // in the order of registration, each before the layers inside it
  std::int64_t parameters = 0;
  std::int64_t trainable = 0;  // the rest is frozen
  std::int64_t parameter_bytes = 0;
  std::int64_t gradient_bytes = 0;  // for the gradients of a backward pass
  std::int64_t buffer_bytes = 0;
  // The memory of the forward pass, as the allocators count it. Empty if no forward pass ran.
  // `activation_bytes` is the memory in use after the pass, which holds its results and what the backward
  // pass needs. `peak_bytes` is the most memory in use during the pass.
  std::optional<std::int64_t> activation_bytes{};
  std::optional<std::int64_t> peak_bytes{};

  std::string table() const;
};

namespace detail {

using Forward = std::function<std::vector<at::Tensor>()>;
// `forward` may be null.
ModelSummary summarize(torch::nn::Module& module, const std::vector<at::Tensor>& inputs,
                       const Forward& forward);
// Returns zeros of this size, with the type and device of the first parameter.
at::Tensor input_for(const torch::nn::Module& module, at::IntArrayRef size);

template <class Model>
auto& module_in(Model& model) {
  if constexpr (std::is_base_of_v<torch::nn::Module, std::remove_const_t<Model>>)
    return model;
  else if constexpr (requires { model.module(); })  // a DistributedDataParallel or DataParallel
    return *model.module();
  else
    return *model;
}

}  // namespace detail

// `model` is a module, a holder or shared_ptr of one, or a DistributedDataParallel. `inputs` are the
// arguments of its forward(). Without inputs no forward pass runs, and the shapes of outputs are unknown.
template <class Model, class... Inputs>
  requires(!(sizeof...(Inputs) == 1 && (std::is_convertible_v<const Inputs&, at::IntArrayRef> && ...)))
ModelSummary summary(Model&& model, const Inputs&... inputs) {
  auto& module = detail::module_in(model);
  if constexpr (sizeof...(Inputs) == 0) {
    return detail::summarize(module, {}, nullptr);
  } else {
    std::vector<at::Tensor> tensors;
    const auto note = [&](const auto& input) {
      if constexpr (std::is_same_v<std::decay_t<decltype(input)>, at::Tensor>) tensors.push_back(input);
    };
    (note(inputs), ...);
    return detail::summarize(module, tensors, [&] {
      auto output = module.forward(inputs...);
      std::vector<at::Tensor*> found;
      detail::collect_tensors(output, found);
      std::vector<at::Tensor> outputs;
      for (const at::Tensor* each : found) outputs.push_back(*each);
      return outputs;
    });
  }
}

// `input_size` is the size of the model's only input, including the batch, such as {64, 1, 28, 28}. If the
// model has several inputs, or inputs of integers such as token numbers, call summary() with example inputs
// instead.
template <class Model>
ModelSummary summary(Model&& model, at::IntArrayRef input_size) {
  return summary(model, detail::input_for(detail::module_in(model), input_size));
}

}  // namespace muster
