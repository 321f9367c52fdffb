// torch::nn::Linear that rounds as Python's torch.nn.Linear.
//
// forward() of LibTorch's multiplies and then adds the bias where the input has not two dimensions, as in
// transformers: in bf16 that rounds twice, and autocast keeps no copy of its weight. This one adds in the
// product. Else it is a torch::nn::Linear, also to code that looks for one, and its parameters have the same
// names.
#pragma once

#include <ATen/ops/linear.h>
#include <memory>
#include <optional>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

namespace muster {

class LinearImpl : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;
  // [..., in_features] to [..., out_features]
  at::Tensor forward(const at::Tensor& input) { return at::linear(input, weight, bias); }
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override;
};
TORCH_MODULE(Linear);

}  // namespace muster
