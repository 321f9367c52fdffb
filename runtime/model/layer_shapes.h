// Finds the output shapes of a model's layers without changing the model.
//
// Modules call each other by ordinary functions, so nothing can observe these calls. Instead, there are two
// ways to find the shapes:
// - Observe the operators and their inputs. The first operator that gets a parameter of a torch::nn layer
//   computes that layer.
// - If the model is a Sequential, run its layers one after the other.
// Use both on the thread that runs the forward pass.
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

// Watches the layers of `module` that are layers of torch::nn. While a LayerWatch exists, it notes the output
// of each of these layers that the current thread computes.
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
  bool inside_ = false;  // within the operator that computes a layer: the operators that it calls are ignored
  at::CallbackHandle handle_ = 0;
};

// Adds the outputs of the layers in each Sequential of `module` to `outputs`. If the shape of a layer's input
// is known, runs the layer on zeros of this shape. `input` describes the input of `module`. It is empty if it
// is not known.
void walk_through_sequentials(torch::nn::Module& module, const std::optional<OutputKind>& input,
                              OutputKinds& outputs);

}  // namespace muster
