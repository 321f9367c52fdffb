// First values of a model's parameters by the type of their layers, in one call: what Python programs write
// as model.apply(init_weights).
//
//   muster::init_weights(net, {.conv = muster::initializers::kaiming_normal(),
//                              .linear = muster::initializers::trunc_normal(0.02)});
//
// All draw from the default generator, so that torch::manual_seed() decides. DistributedDataParallel gives
// all ranks those of rank 0. For one thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <functional>
#include <muster/comm/detail/module.h>

namespace muster {

// Fills a tensor in place, under no_grad.
using Initializer = std::function<void(at::Tensor&)>;

// torch.nn.init's, by their names.
namespace initializers {
enum class Mode { kFanIn, kFanOut };
// For layers that ReLU follows, or leaky ReLU of this slope.
Initializer kaiming_normal(double a = 0, Mode mode = Mode::kFanIn);
Initializer kaiming_uniform(double a = 0, Mode mode = Mode::kFanIn);
Initializer xavier_normal(double gain = 1);
Initializer xavier_uniform(double gain = 1);
// For tensors of two dimensions or more; the second and all later ones count as one. Floats and doubles get
// Python's numbers.
Initializer orthogonal(double gain = 1);
Initializer normal(double std, double mean = 0);
// A normal distribution within [a, b] alone; std 0 and more. By the inverse distribution
// function; Python has drawn again what is outside since torch 2.15, so the numbers differ.
Initializer trunc_normal(double std = 1, double mean = 0, double a = -2, double b = 2);
Initializer uniform(double a, double b);
Initializer constant(double value);
}  // namespace initializers

// Of each kind of layer the weights; empty: as LibTorch has made them.
struct LayerInitializers {
  Initializer conv{};       // Conv1d to Conv3d, and transposed
  Initializer linear{};     // Linear, Bilinear
  Initializer recurrent{};  // RNN, LSTM and GRU, cells included: every matrix
  Initializer embedding{};
  Initializer bias = initializers::constant(0);  // of those of these kinds that are set
};

namespace detail {
int init_weights(torch::nn::Module& module, const LayerInitializers& initializers);
}  // namespace detail

// How many tensors it has filled. A row of an embedding that is padding_idx is 0 afterwards.
// std::invalid_argument if the model has no layer of a kind that is set.
template <detail::IsModel Model>
int init_weights(Model& model, const LayerInitializers& initializers) {
  return detail::init_weights(detail::module_of(model), initializers);
}

}  // namespace muster
