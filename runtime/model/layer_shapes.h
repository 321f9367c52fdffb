// The output shapes of a model's layers, as far as they can be seen from outside in C++.
//
// Modules call each other by plain functions, which nobody can hook. What can be seen is every operator with
// its inputs: the first one that is given a parameter of a torch::nn layer computes that layer. And a
// Sequential can be walked through by hand, one layer after the other. For the thread of the forward pass.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <cstdint>
#include <optional>
#include <torch/nn/module.h>
#include <unordered_map>
#include <vector>

namespace muster {

struct OutputKind {
  std::vector<std::int64_t> shape;
  at::TensorOptions options;
};
using OutputKinds = std::unordered_map<const torch::nn::Module*, OutputKind>;

OutputKind kind_of(const at::Tensor& tensor);

// While it lives, notes what the operators of this thread say about the torch::nn layers of `module`.
class LayerWatch {
 public:
  explicit LayerWatch(const torch::nn::Module& module);
  ~LayerWatch();
  LayerWatch(const LayerWatch&) = delete;
  LayerWatch& operator=(const LayerWatch&) = delete;

  const OutputKinds& outputs() const { return outputs_; }

 private:
  static std::unique_ptr<at::ObserverContext> operator_begins(const at::RecordFunction& function);
  static void operator_ends(const at::RecordFunction& function, at::ObserverContext* context);
  const torch::nn::Module* layer_of(const at::RecordFunction& function) const;

  std::unordered_map<const c10::TensorImpl*, const torch::nn::Module*> layer_of_;  // by parameter
  OutputKinds outputs_;
  bool inside_ = false;  // an operator that a layer is computed by: what it calls is its own affair
  at::CallbackHandle handle_ = 0;
};

// Adds those of each layer in a Sequential in `module` whose input is known: it runs them on zeros. Of
// `module` itself `input` is, if it has one.
void walk_through_sequentials(torch::nn::Module& module, const std::optional<OutputKind>& input,
                              OutputKinds& outputs);

}  // namespace muster
