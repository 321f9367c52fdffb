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

struct GradientBatch {
  std::vector<at::Tensor> gradients;
  std::vector<std::size_t> places;  // indices in the list of all gradients
};
using GradientBatches = std::vector<GradientBatch>;

// Groups the gradients by device and type. Keeps the order of Python's clip_grad_norm_, because the last bit
// of the norm depends on it.
GradientBatches batches_of(const std::vector<at::Tensor>& gradients) {
  if (gradients.empty()) return {};
  at::native::nested_optional_tensorvec_t one_list(1);
  one_list[0].assign(gradients.begin(), gradients.end());
  GradientBatches batches;
  for (const auto& [key, tensors] :
       at::native::_group_tensors_by_first_tensors_device_and_dtype(one_list, /*with_indices=*/true)) {
    batches.push_back({.gradients = {}, .places = {tensors.second.begin(), tensors.second.end()}});
    for (const auto& tensor : tensors.first[0]) batches.back().gradients.push_back(*tensor);
  }
  return batches;
}

void scale_batches(const GradientBatches& batches, const at::Tensor& scale) {
  for (const auto& batch : batches) at::_foreach_mul_(batch.gradients, scale.to(batch.gradients[0].device()));
}

// Combines the norms of all ranks in the first group, then of all ranks in the next group, and so on. It
// computes in double for two reasons. Half cannot hold the square of a norm of 300. And parts of a model can
// have different types.
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

std::vector<at::Tensor> norms_of(const std::vector<at::Tensor>& gradients, double norm_type) {
  std::vector<at::Tensor> norms(gradients.size());
  for (const auto& batch : batches_of(gradients)) {
    const auto of_batch = at::_foreach_norm(batch.gradients, norm_type);
    for (std::size_t i = 0; i < of_batch.size(); ++i)
      norms[batch.places[i]] = of_batch[i].to(gradients[0].device());
  }
  return norms;
}

// Computes `max_norm / (norm + 1e-6)`. Like Python, it first computes the reciprocal. If the result is 1, the
// caller still multiplies the gradients by it. Checking for 1 would mean to wait for the GPU.
at::Tensor clip_scale(const at::Tensor& norm, double max_norm) {
  return ((norm + 1e-6).reciprocal() * max_norm).clamp_max(1.0);
}

void scale_gradients(const std::vector<at::Tensor>& gradients, const at::Tensor& scale) {
  scale_batches(batches_of(gradients), scale);
}

at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type,
                           bool error_if_nonfinite, const std::vector<Group>& groups) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : parameters)
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  if (gradients.empty() && groups.empty()) return at::zeros({});

  const GradientBatches batches = batches_of(gradients);
  std::vector<at::Tensor> norms;
  for (const auto& batch : batches)
    for (const auto& norm : at::_foreach_norm(batch.gradients, norm_type))
      norms.push_back(norm.to(gradients[0].device()));
  const at::Tensor mine =
      norms.empty() ? at::zeros({}, groups[0].device()) : at::linalg_vector_norm(at::stack(norms), norm_type);
  const at::Tensor total = norm_over(groups, mine, norm_type);
  if (error_if_nonfinite && !at::isfinite(total).item<bool>())
    throw std::runtime_error(
        fmt::format("clip_grad_norm_: the norm of the gradients is {}", total.item<double>()));

  scale_batches(batches, clip_scale(total, max_norm));
  return total;
}

}  // namespace muster
