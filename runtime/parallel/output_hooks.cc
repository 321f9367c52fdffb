#include "runtime/parallel/output_hooks.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <utility>

#include "common/base/clock.h"
#include "runtime/rank/step_time.h"
#include "runtime/rank/trace.h"
#include "runtime/torch_versions.h"

namespace muster {
namespace {

// Calls a function when gradients arrive, and then passes the gradients on. A gradient that is missing stays
// missing, so the Reducer learns that this output is not part of the loss.
class Sink : public torch::autograd::Node {
 public:
  Sink(torch::autograd::edge_list&& next, std::function<void()> on_backward)
      : Node(std::move(next)), on_backward_(std::move(on_backward)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    on_backward_();
    return std::move(gradients);
  }

 private:
  std::function<void()> on_backward_;
};

}  // namespace

void pass_through_sink(const std::vector<torch::Tensor*>& outputs, std::function<void()> on_backward) {
  std::vector<torch::Tensor*> live;
  std::vector<torch::Tensor> inputs;
  for (torch::Tensor* output : outputs) {
    if (!output->defined() || output->grad_fn() == nullptr) continue;
    live.push_back(output);
    inputs.push_back(*output);
  }
  if (inputs.empty()) return;
  auto sink = compat::make_node<Sink>(torch::autograd::collect_next_edges(inputs), std::move(on_backward));
  for (torch::Tensor* output : live) {
    torch::Tensor copy = output->detach().clone();
    torch::autograd::create_gradient_edge(copy, sink);
    *output = copy;
  }
}

// Measures how long the Reducer waits for the other ranks. On the CPU, the Reducer waits in a callback at the
// end of the backward pass. Callbacks run in the order in which they were queued:
// - The hook of the first gradient queues callback A, before the Reducer queues its own callback. So A runs
//   first. It takes the time, and queues callback B.
// - The Reducer's callback waits for the other ranks.
// - Callback B takes the time again.
//
// The hook returns nothing, so it changes no gradient.
void time_backward(const std::vector<torch::Tensor*>& outputs) {
  const auto begun = std::make_shared<bool>(false);
  for (torch::Tensor* output : outputs) {
    if (!output->defined() || output->grad_fn() == nullptr) continue;
    output->register_hook([begun](const torch::Tensor&) {
      if (std::exchange(*begun, true)) return;
      torch::autograd::Engine::get_default_engine().queue_callback([began = Clock::now()] {
        const TimePoint waits = Clock::now();
        const auto token = step_time().begin(kCommunicatePart, waits);
        torch::autograd::Engine::get_default_engine().queue_callback([token, began, waits] {
          end_step_part(token);
          TraceFile* const trace = trace_file();
          if (trace == nullptr) return;
          const TimePoint end = Clock::now();
          trace->add(TraceTrack::kCommunication, "gradients", waits, end);
          trace->add(TraceTrack::kStep, "backward", began, end);
        });
      });
    });
  }
}

}  // namespace muster
