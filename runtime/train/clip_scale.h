// By what clip_grad_norm_ multiplies gradients, for those that it has not seen.
//
// Pure.
#pragma once

#include <ATen/core/Tensor.h>

namespace muster {

// At most 1; `norm` is a tensor of no dimension, and so is the result.
at::Tensor clip_scale(const at::Tensor& norm, double max_norm);

}  // namespace muster
