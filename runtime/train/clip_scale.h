// Computes the factor that clip_grad_norm_ applies to gradients, for callers that scale gradients themselves.
//
// Pure.
#pragma once

#include <ATen/core/Tensor.h>

namespace muster {

// Returns at most 1. `norm` and the result are tensors without dimensions.
at::Tensor clip_scale(const at::Tensor& norm, double max_norm);

}  // namespace muster
