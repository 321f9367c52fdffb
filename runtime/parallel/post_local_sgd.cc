#include <fmt/format.h>
#include <muster/checkpoint/state_part.h>
#include <muster/comm/collectives.h>
#include <muster/parallel/post_local_sgd.h>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/parallel/comm_hook.h"

namespace muster {

class PostLocalSGDHook : public c10d::CppCommHookInterface<PostLocalSGDState*> {
 public:
  using CppCommHookInterface::CppCommHookInterface;

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    if (state_->iter_ < state_->start_) {
      if (bucket.isLast()) ++state_->iter_;
      return start_mean(state_->group_.process_group(), bucket.getBuffer());
    }
    if (!state_->subgroup_) return finished(bucket.getBuffer());
    return start_mean(state_->subgroup_->process_group(), bucket.getBuffer());
  }
};

PostLocalSGDState::PostLocalSGDState(Group group, std::optional<Group> subgroup,
                                     std::int64_t start_localSGD_iter)
    : group_(std::move(group)), subgroup_(std::move(subgroup)), start_(start_localSGD_iter) {
  if (subgroup_ && !subgroup_->is_member())
    throw std::invalid_argument(
        fmt::format("PostLocalSGD: this rank is not in the {}", subgroup_->description()));
}

void PostLocalSGDState::save(SavedState& to) const {
  to.shared_value("iter", write_number(iter_));
}
void PostLocalSGDState::load(LoadedState& from) {
  iter_ = from.number<std::int64_t>("iter");
}

std::unique_ptr<c10d::CommHookInterface> post_localSGD_hook(PostLocalSGDState& state) {
  return std::make_unique<PostLocalSGDHook>(&state);
}

PeriodicModelAverager::PeriodicModelAverager(Group group, std::int64_t period, std::int64_t warmup_steps)
    : group_(std::move(group)), period_(period), warmup_steps_(warmup_steps) {
  if (period_ < 1)
    throw std::invalid_argument(
        fmt::format("PeriodicModelAverager: period is {}; it must be at least 1", period_));
  if (warmup_steps_ < 0)
    throw std::invalid_argument(
        fmt::format("PeriodicModelAverager: warmup_steps is {}; it must be at least 0", warmup_steps_));
}

void PeriodicModelAverager::average_parameters(const std::vector<at::Tensor>& parameters) {
  averaged_ = step_ >= warmup_steps_ && (step_ - warmup_steps_) % period_ == 0;
  ++step_;
  if (!averaged_) return;
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> rows;
  for (const at::Tensor& each : parameters)
    if (each.grad().defined()) rows.push_back(each.reshape({-1}));
  if (rows.empty()) return;
  at::Tensor flat = at::cat(rows).div_(group_.size());
  all_reduce(group_, flat);
  std::int64_t begin = 0;
  for (const at::Tensor& each : parameters) {
    if (!each.grad().defined()) continue;
    each.copy_(flat.narrow(0, begin, each.numel()).view(each.sizes()));
    begin += each.numel();
  }
}

at::Tensor PostLocalSGDOptimizer::step(const torch::optim::Optimizer::LossClosure& closure) {
  at::Tensor loss = optim_.step(closure);
  std::vector<at::Tensor> parameters;
  for (const auto& group : optim_.param_groups())
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  averager_.average_parameters(parameters);
  return loss;
}

void PeriodicModelAverager::save(SavedState& to) const {
  to.shared_value("step", write_number(step_));
}
void PeriodicModelAverager::load(LoadedState& from) {
  step_ = from.number<std::int64_t>("step");
}

}  // namespace muster
