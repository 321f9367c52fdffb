#include <ATen/native/ForeachUtils.h>
#include <fmt/core.h>
#include <muster/grad_clip.h>
#include <stdexcept>
#include <torch/torch.h>

namespace muster {
namespace {

using Groups = std::vector<std::vector<at::Tensor>>;

// Of one device and type each, in the order in which Python has them, on which the last bit depends.
Groups group_gradients(const std::vector<at::Tensor>& gradients) {
  at::native::nested_optional_tensorvec_t one_list(1);
  one_list[0].assign(gradients.begin(), gradients.end());
  Groups groups;
  for (const auto& [key, tensors] :
       at::native::_group_tensors_by_first_tensors_device_and_dtype(one_list, /*with_indices=*/false)) {
    groups.emplace_back();
    for (const auto& tensor : tensors.first[0]) groups.back().push_back(*tensor);
  }
  return groups;
}

}  // namespace

at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type,
                           bool error_if_nonfinite) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters)
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  if (gradients.empty()) return at::zeros({});

  const Groups groups = group_gradients(gradients);
  std::vector<at::Tensor> norms;
  for (const auto& group : groups)
    for (const auto& norm : at::_foreach_norm(group, norm_type))
      norms.push_back(norm.to(gradients[0].device()));
  const at::Tensor total = at::linalg_vector_norm(at::stack(norms), norm_type);
  if (error_if_nonfinite && !at::isfinite(total).item<bool>())
    throw std::runtime_error(
        fmt::format("clip_grad_norm_: the norm of the gradients is {}", total.item<double>()));

  // Python's max_norm / (total + 1e-6), of which a tensor takes the reciprocal first. A scale of 1 is applied
  // too: to know that it is 1 would be to wait for a GPU.
  const at::Tensor scale = ((total + 1e-6).reciprocal() * max_norm).clamp_max(1.0);
  for (const auto& group : groups) at::_foreach_mul_(group, scale.to(group[0].device()));
  return total;
}

}  // namespace muster
