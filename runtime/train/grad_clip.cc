#include <ATen/native/ForeachUtils.h>
#include <cmath>
#include <fmt/format.h>
#include <muster/comm/collectives.h>
#include <muster/train/grad_clip.h>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/train/clip_scale.h"

namespace muster {
namespace {

using Batches = std::vector<std::vector<at::Tensor>>;

// Groups the gradients by device and type, in Python's order, on which the last bit of the norm depends.
Batches batches_of(const std::vector<at::Tensor>& gradients) {
  if (gradients.empty()) return {};
  at::native::nested_optional_tensorvec_t one_list(1);
  one_list[0].assign(gradients.begin(), gradients.end());
  Batches batches;
  for (const auto& [key, tensors] :
       at::native::_group_tensors_by_first_tensors_device_and_dtype(one_list, /*with_indices=*/false)) {
    batches.emplace_back();
    for (const auto& tensor : tensors.first[0]) batches.back().push_back(*tensor);
  }
  return batches;
}

// Combines this rank's norm with those of the other ranks along the groups. Computes in double: Half cannot
// hold the square of a norm of 300, and the parts of a model may be of different types.
at::Tensor norm_over(const std::vector<Group>& groups, at::Tensor norm, double norm_type) {
  if (groups.empty()) return norm;
  if (!(norm_type > 0))
    throw std::invalid_argument(
        fmt::format("clip_grad_norm_: norm_type is {}; over groups it must be above 0", norm_type));
  const bool greatest = std::isinf(norm_type);
  at::Tensor sum = norm.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
  if (!greatest) sum.pow_(norm_type);
  for (const Group& group : groups) all_reduce(group, sum, greatest ? ReduceOp::kMax : ReduceOp::kSum);
  return (greatest ? sum : sum.pow(1 / norm_type)).to(norm.scalar_type());
}

}  // namespace

// Computes Python's max_norm / (total + 1e-6), which takes the tensor's reciprocal first. The caller also
// applies a scale of 1, because a check for 1 would have to wait for the GPU.
at::Tensor clip_scale(const at::Tensor& norm, double max_norm) {
  return ((norm + 1e-6).reciprocal() * max_norm).clamp_max(1.0);
}

at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type,
                           bool error_if_nonfinite, const std::vector<Group>& groups) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters)
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  if (gradients.empty() && groups.empty()) return at::zeros({});

  const Batches batches = batches_of(gradients);
  std::vector<at::Tensor> norms;
  for (const auto& batch : batches)
    for (const auto& norm : at::_foreach_norm(batch, norm_type))
      norms.push_back(norm.to(gradients[0].device()));
  const at::Tensor mine =
      norms.empty() ? at::zeros({}, groups[0].device()) : at::linalg_vector_norm(at::stack(norms), norm_type);
  const at::Tensor total = norm_over(groups, mine, norm_type);
  if (error_if_nonfinite && !at::isfinite(total).item<bool>())
    throw std::runtime_error(
        fmt::format("clip_grad_norm_: the norm of the gradients is {}", total.item<double>()));

  const at::Tensor scale = clip_scale(total, max_norm);
  for (const auto& batch : batches) at::_foreach_mul_(batch, scale.to(batch[0].device()));
  return total;
}

}  // namespace muster
