#include <muster/model/linear.h>
#include <torch/torch.h>

namespace muster {

std::shared_ptr<torch::nn::Module> LinearImpl::clone(const std::optional<torch::Device>& device) const {
  const torch::NoGradGuard no_grad;
  auto copy = std::make_shared<LinearImpl>(options);
  const auto copy_of = [&](const at::Tensor& tensor) {
    return device && *device != tensor.device() ? tensor.to(*device) : tensor.clone();
  };
  for (auto& parameter : copy->named_parameters()) {
    const at::Tensor& original = named_parameters()[parameter.key()];
    parameter.value().set_data(copy_of(original));
    parameter.value().set_requires_grad(original.requires_grad());
  }
  copy->train(is_training());
  return copy;
}

}  // namespace muster
