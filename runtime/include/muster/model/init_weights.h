// Initializes a model's parameters by the type of their layers, in one call: Python's
// model.apply(init_weights).
//
//   muster::init_weights(net, {.conv = muster::initializers::kaiming_normal(),
//                              .linear = muster::initializers::trunc_normal(0.02)});
//
// All initializers draw from the default generator, so torch::manual_seed() determines the values.
// DistributedDataParallel gives rank 0's values to all ranks. One thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <functional>
#include <muster/comm/detail/module.h>

namespace muster {

// Fills a tensor in place, under no_grad.
using Initializer = std::function<void(at::Tensor&)>;

// torch.nn.init's initializers, by their names.
namespace initializers {
enum class Mode { kFanIn, kFanOut };
// `a`: the slope of the leaky ReLU that follows the layer; 0 for ReLU.
Initializer kaiming_normal(double a = 0, Mode mode = Mode::kFanIn);
Initializer kaiming_uniform(double a = 0, Mode mode = Mode::kFanIn);
Initializer xavier_normal(double gain = 1);
Initializer xavier_uniform(double gain = 1);
// For tensors of two dimensions or more; the second and later dimensions count as one. For floats and
// doubles, the numbers are Python's.
Initializer orthogonal(double gain = 1);
Initializer normal(double std, double mean = 0);
// Draws from a normal distribution truncated to [a, b]; std >= 0. Uses the inverse distribution function;
// Python uses rejection sampling since torch 2.15, so the numbers differ.
Initializer trunc_normal(double std = 1, double mean = 0, double a = -2, double b = 2);
Initializer uniform(double a, double b);
Initializer constant(double value);
}  // namespace initializers

// Initializers for the weights of each kind of layer; empty: the kind keeps LibTorch's values.
struct LayerInitializers {
  Initializer conv{};       // Conv1d to Conv3d, and transposed
  Initializer linear{};     // Linear, Bilinear
  Initializer recurrent{};  // every matrix of RNN, LSTM, GRU and their cells
  Initializer embedding{};
  Initializer bias = initializers::constant(0);  // for the biases of the kinds that are set
};

namespace detail {
int init_weights(torch::nn::Module& module, const LayerInitializers& initializers);
}  // namespace detail

// Returns the number of tensors that it has filled. Sets the row `padding_idx` of an embedding to zeros.
// Throws std::invalid_argument if the model has no layer of a kind that is set.
template <detail::IsModel Model>
int init_weights(Model& model, const LayerInitializers& initializers) {
  return detail::init_weights(detail::module_of(model), initializers);
}

}  // namespace muster
