// torch::nn::Linear with the rounding of Python's torch.nn.Linear.
//
// If the input does not have two dimensions, as in transformers, LibTorch's forward() multiplies first and
// adds the bias afterwards: in bf16 that rounds twice, and autocast does not cache the weight. This class
// adds the bias within the product. It derives from torch::nn::LinearImpl, and its parameters have the same
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
  // Maps [..., in_features] to [..., out_features].
  at::Tensor forward(const at::Tensor& input) { return at::linear(input, weight, bias); }
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override;
};
TORCH_MODULE(Linear);

}  // namespace muster
