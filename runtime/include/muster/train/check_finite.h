// Ends a training when its loss becomes NaN or infinite.
//
//   muster::check_finite(loss);
//   loss.backward();
//
// Checks only this rank's values, and waits for the GPU if they are on one. A Checkpointer checks the
// parameters that it saves by itself.
#pragma once

#include <ATen/core/Tensor.h>
#include <string_view>

namespace muster {

// Throws std::runtime_error if a value is NaN or infinite. The message contains the value, or the number of
// such values. It also names the DataLoader's batch that this thread is training on. In the
// message, `values` are called `name`.
void check_finite(const at::Tensor& values, std::string_view name = "the loss");
void check_finite(double value, std::string_view name = "the loss");

}  // namespace muster
