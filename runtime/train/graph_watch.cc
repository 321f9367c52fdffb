#include <fmt/format.h>
#include <muster/comm/job.h>
#include <muster/train/graph_watch.h>
#include <stdexcept>
#include <torch/torch.h>

#include "common/base/log.h"
#include "runtime/torch_versions.h"

namespace muster {

GraphWatch::GraphWatch(const Group& group, std::int64_t steps) : rank_(group.job().rank()), limit_(steps) {
  if (steps < 2)
    throw std::invalid_argument(fmt::format("GraphWatch: steps is {}; it must be at least 2", steps));
}

void GraphWatch::step(const at::Tensor& loss, const std::string& name) {
  ++steps_;
  if (!found_.empty()) return;
  while (!watched_.empty() && watched_.front().step + limit_ <= steps_) {
    const Watched& old = watched_.front();
    if (old.lives()) {
      found_ = fmt::format(
          "the graph of step {}{} is still in memory {} steps later: "
          "something keeps a tensor that was computed from the parameters, such as a sum of losses; "
          "keep its item() or detach() instead",
          old.step, old.name.empty() ? "" : fmt::format(", of '{}',", old.name), limit_);
      log::warning("rank {}: {}", rank_, found_);
      watched_.clear();
      return;
    }
    watched_.pop_front();
  }
  if (loss.grad_fn() == nullptr) return;
  watched_.push_back({.step = steps_,
                      .name = name.empty() ? loss.name() : name,
                      .lives = [root = compat::WeakNodePtr(loss.grad_fn())] { return !root.expired(); }});
}

}  // namespace muster
