// Hooks that DistributedDataParallel adds to the outputs of a forward pass to follow the backward pass.
//
// The functions ignore outputs without a graph. Call them on the thread of the forward pass. The callbacks
// run in the backward pass.
#pragma once

#include <ATen/core/Tensor.h>
#include <functional>
#include <vector>

namespace muster {

// Replaces the outputs by copies. The gradients of all copies pass through one new node of the graph, which
// first calls `on_backward`. A missing gradient stays missing.
void pass_through_sink(const std::vector<at::Tensor*>& outputs, std::function<void()> on_backward);

// Tells step_time() when the backward pass of these outputs begins to wait for other ranks and when the wait
// ends. Tells the trace when the backward pass begins and ends. Works only on the CPU.
void time_backward(const std::vector<at::Tensor*>& outputs);

}  // namespace muster
