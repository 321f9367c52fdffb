// Keeps gradients small: torch.nn.utils.clip_grad_norm_, to the last bit and without waiting for a GPU.
//
//   loss.backward();
//   muster::clip_grad_norm_(model, 1.0);
//   optimizer.step();
//
// The norm is over all gradients as one vector. After backward() of a DistributedDataParallel gradients are
// the same on all ranks, so each clips for itself and comes to the same; inside no_sync() they are not.
// (torch::nn::utils::clip_grad_norm_ of LibTorch adds up in another order, and waits for the GPU.)
//
// Where ranks hold different parameters of one model, the norm is that of the whole: name the groups along
// which they do, such as those of the pipeline and of the tensors' shards. It is then collective over them.
#pragma once

#include <ATen/core/Tensor.h>
#include <muster/comm/group.h>
#include <vector>

namespace muster {

// Scales the gradients in place so that their norm is at most max_norm, and returns the norm that they had, a
// tensor of no dimension. Parameters without a gradient are left out. norm_type: 2, or any other, infinity
// included. std::runtime_error if the norm is not finite and error_if_nonfinite is set; otherwise such
// gradients become NaN or 0.
at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type = 2.0,
                           bool error_if_nonfinite = false, const std::vector<Group>& groups = {});

// Of a DistributedDataParallel, a module, or what points to one.
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
