// Ends a training whose loss is not a number any more, where that begins.
//
//   muster::check_finite(loss);
//   loss.backward();
//
// It looks at this rank's values alone, and waits for the GPU if they are on one. A Checkpointer looks at the
// parameters of what it saves by itself.
#pragma once

#include <ATen/core/Tensor.h>
#include <string_view>

namespace muster {

// std::runtime_error if a value is NaN or infinite: it says which or how many, and with which batch of a
// DataLoader this thread is training. `name` is what the message calls them.
void check_finite(const at::Tensor& values, std::string_view name = "the loss");
void check_finite(double value, std::string_view name = "the loss");

}  // namespace muster
