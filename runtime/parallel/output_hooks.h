// Hooks that DistributedDataParallel adds to the outputs of a forward pass to follow the backward pass.
//
// Ignores outputs without a graph. For the thread of the forward pass; callbacks run in the backward pass.
#pragma once

#include <ATen/core/Tensor.h>
#include <functional>
#include <vector>

namespace muster {

// Replaces the outputs by copies. The copies' gradients pass through one node of the graph, which calls
// `on_backward` first. A missing gradient stays missing there, unlike at the graph's own last node.
void pass_through_sink(const std::vector<at::Tensor*>& outputs, std::function<void()> on_backward);

// Tells step_time() when the backward pass of these outputs begins to wait for other ranks and when the wait
// ends; tells the trace when the backward pass begins and ends. CPU only.
void time_backward(const std::vector<at::Tensor*>& outputs);

}  // namespace muster
