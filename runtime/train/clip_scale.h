// The single steps of clip_grad_norm_(). They are for callers that combine the norms of gradients by
// themselves.
//
// The functions do not wait for a GPU.
#pragma once

#include <ATen/core/Tensor.h>
#include <vector>

namespace muster {

// Returns the norm of each gradient, in the order of the gradients, on the device of the first one. Each norm
// has the same bits, whatever the other gradients are.
std::vector<at::Tensor> norms_of(const std::vector<at::Tensor>& gradients, double norm_type);
// Returns a factor, which is at most 1. The caller multiplies the gradients by it. `norm` and the result are
// tensors without dimensions.
at::Tensor clip_scale(const at::Tensor& norm, double max_norm);
// Multiplies the gradients in place.
void scale_gradients(const std::vector<at::Tensor>& gradients, const at::Tensor& scale);

}  // namespace muster
