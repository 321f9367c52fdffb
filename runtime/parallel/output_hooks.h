// What DistributedDataParallel hangs on the outputs of a forward pass to learn how the backward pass goes.
//
// Outputs that autograd does not know are left alone. For the thread of the forward pass; what is called back
// runs in the backward pass.
#pragma once

#include <ATen/core/Tensor.h>
#include <functional>
#include <vector>

namespace muster {

// Replaces the outputs by copies of them whose gradients pass through one node of the graph, which calls
// `on_backward` first. A gradient that is missing stays missing there, unlike at the graph's own last node.
void pass_through_sink(const std::vector<at::Tensor*>& outputs, std::function<void()> on_backward);

// Tells step_time() when the backward pass of these outputs begins and ends to wait for other ranks, and the
// trace when it begins and ends. CPU only.
void time_backward(const std::vector<at::Tensor*>& outputs);

}  // namespace muster
