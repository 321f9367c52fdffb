// Limits the norm of gradients, as torch.nn.utils.clip_grad_norm_ does. The results are equal to the last
// bit, and the call does not wait for a GPU.
//
//   loss.backward();
//   muster::clip_grad_norm_(model, 1.0);
//   optimizer.step();
//
// The norm is over all gradients as one vector. After backward() of a DistributedDataParallel all ranks have
// the same gradients, so each rank clips on its own with the same result. Inside no_sync() the ranks'
// gradients differ. (LibTorch's torch::nn::utils::clip_grad_norm_ adds in another order, and waits for the
// GPU.)
//
// If ranks hold different parameters of one model, pass the groups of these ranks, such as the pipeline's or
// the tensor shards': the norm is then over the whole model, and the call is collective over these groups.
// The last bit of this norm depends on which rank has which parameters. PipelineSchedule::clip_grad_norm_()
// returns a norm that does not depend on it.
#pragma once

#include <ATen/core/Tensor.h>
#include <muster/comm/group.h>
#include <vector>

namespace muster {

// Scales the gradients in place so that their norm is at most max_norm. Returns the norm before scaling, as a
// tensor without dimensions. Parameters without a gradient are skipped. norm_type can be any number,
// including infinity; if there are `groups`, it must be above 0. If the norm is not finite and
// error_if_nonfinite is true, throws std::runtime_error. If error_if_nonfinite is false, such a norm turns
// the gradients into NaN or 0.
at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type = 2.0,
                           bool error_if_nonfinite = false, const std::vector<Group>& groups = {});

// As above, for all parameters of a model. `model` is a DistributedDataParallel, a module, or a pointer to a
// module.
template <class Model>
  requires requires(const Model& model) { model.parameters(); }
at::Tensor clip_grad_norm_(const Model& model, double max_norm, double norm_type = 2.0,
                           bool error_if_nonfinite = false, const std::vector<Group>& groups = {}) {
  return clip_grad_norm_(model.parameters(), max_norm, norm_type, error_if_nonfinite, groups);
}
template <class Pointer>
  requires requires(const Pointer& model) { model->parameters(); }
at::Tensor clip_grad_norm_(const Pointer& model, double max_norm, double norm_type = 2.0,
                           bool error_if_nonfinite = false, const std::vector<Group>& groups = {}) {
  return clip_grad_norm_(model->parameters(), max_norm, norm_type, error_if_nonfinite, groups);
}

}  // namespace muster
