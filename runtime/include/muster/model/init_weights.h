// Initializes a model's parameters by the type of their layers, in one call: Python's
// model.apply(init_weights).
//
//   muster::init_weights(net, {.conv = muster::initializers::kaiming_normal(),
//                              .linear = muster::initializers::trunc_normal(0.02)});
//
// All initializers draw from the default generator, so torch::manual_seed() determines the values.
// DistributedDataParallel gives rank 0's values to all ranks. Only one thread may call it at a time.
#pragma once

#include <ATen/core/Tensor.h>
#include <functional>
#include <muster/comm/detail/module.h>

namespace muster {

// Fills a tensor in place, under no_grad.
using Initializer = std::function<void(at::Tensor&)>;

// These functions are the initializers of torch.nn.init and have the same names.
namespace initializers {
enum class Mode { kFanIn, kFanOut };
// `a` is the slope of the leaky ReLU that follows the layer. For ReLU it is 0.
Initializer kaiming_normal(double a = 0, Mode mode = Mode::kFanIn);
Initializer kaiming_uniform(double a = 0, Mode mode = Mode::kFanIn);
Initializer xavier_normal(double gain = 1);
Initializer xavier_uniform(double gain = 1);
// For a tensor of two or more dimensions. It is treated as a matrix: the first dimension has the rows, and
// all other dimensions together are the columns. For tensors of floats or doubles, the numbers are the same
// as in Python.
Initializer orthogonal(double gain = 1);
Initializer normal(double std, double mean = 0);
// Draws from a normal distribution that is truncated to [a, b]; `std` must be at least 0. The numbers are
// computed with the inverse distribution function. Since torch 2.15, Python uses rejection sampling instead
// and gets other numbers.
Initializer trunc_normal(double std = 1, double mean = 0, double a = -2, double b = 2);
Initializer uniform(double a, double b);
Initializer constant(double value);
}  // namespace initializers

// There is one initializer for the weights of each kind of layer. If it is empty, layers of this kind keep
// the weights that LibTorch gave them.
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
