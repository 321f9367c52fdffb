// Finds the output shapes of a model's layers from outside, as far as C++ allows it.
//
// Modules call each other by plain functions, which cannot be hooked. Two ways are left:
// - Watch the operators with their inputs: the first one that gets a parameter of a torch::nn layer computes
//   that layer.
// - Run the layers of a Sequential, one after the other.
// Use both on the thread of the forward pass.
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

// While it exists, a LayerWatch notes what this thread's operators compute for `module`'s torch::nn layers.
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
  bool inside_ = false;  // within the operator that computes a layer, whose own calls do not count
  at::CallbackHandle handle_ = 0;
};

// Adds the outputs of the layers in each Sequential of `module`: runs a layer on zeros if its input is known.
// `input`: the kind of `module`'s input; empty: unknown.
void walk_through_sequentials(torch::nn::Module& module, const std::optional<OutputKind>& input,
                              OutputKinds& outputs);

}  // namespace muster
