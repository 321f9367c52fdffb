// Steps of each rank by itself, and now and then the mean of all parameters: PyTorch's post-local SGD (Lin et
// al., 2018).
//
//   // Gradients of all ranks for 100 steps, then of the node; then parameters of all every 4 steps.
//   muster::PostLocalSGDState local(job, node, 100);
//   model.register_comm_hook(muster::post_localSGD_hook(local));
//
//   muster::FusedSGD sgd(model.parameters(), torch::optim::SGDOptions(0.1));
//   muster::PostLocalSGDOptimizer optimizer(sgd, muster::PeriodicModelAverager(job, 4, 100));
//   muster::TrainState state(model, sgd, loader);
//   state.add("local", local);
//   state.add("averager", optimizer.averager());
//
// Between two averages ranks differ: save where averager().averaged(), with an optimizer that keeps no state
// (SGD without momentum), for a checkpoint holds what all ranks have. For the training thread.
#pragma once

#include <cstdint>
#include <memory>
#include <muster/comm/group.h>
#include <optional>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/optim/optimizer.h>
#include <utility>
#include <vector>

namespace muster {

class LoadedState;
class SavedState;

class PostLocalSGDState {
 public:
  // `subgroup`: reduces gradients from step `start_localSGD_iter` on; none: nobody does.
  PostLocalSGDState(Group group, std::optional<Group> subgroup, std::int64_t start_localSGD_iter);

  std::int64_t iter() const { return iter_; }  // steps
  // For TrainState.
  void save(SavedState& to) const;
  void load(LoadedState& from);

 private:
  friend class PostLocalSGDHook;
  Group group_;
  std::optional<Group> subgroup_;
  std::int64_t start_;
  std::int64_t iter_ = 0;
};

// The state outlives the backward passes of one model.
std::unique_ptr<c10d::CommHookInterface> post_localSGD_hook(PostLocalSGDState& state);

class PeriodicModelAverager {
 public:
  // std::invalid_argument for a period below 1 or a negative warmup_steps.
  PeriodicModelAverager(Group group, std::int64_t period, std::int64_t warmup_steps = 0);

  // After each step of the optimizer: every `period` steps from warmup_steps on, parameters that have
  // gradients become the mean of the group's.
  void average_parameters(const std::vector<at::Tensor>& parameters);
  std::int64_t step() const { return step_; }  // calls
  bool averaged() const { return averaged_; }  // the last call did

  // For TrainState.
  void save(SavedState& to) const;
  void load(LoadedState& from);

 private:
  Group group_;
  std::int64_t period_, warmup_steps_;
  std::int64_t step_ = 0;
  bool averaged_ = false;
};

// Steps of another optimizer, which outlives it, each with average_parameters() of that optimizer's
// parameters behind it. The other one is what schedulers and checkpoints take.
class PostLocalSGDOptimizer {
 public:
  PostLocalSGDOptimizer(torch::optim::Optimizer& optim, PeriodicModelAverager averager)
      : optim_(optim), averager_(std::move(averager)) {}

  at::Tensor step(const torch::optim::Optimizer::LossClosure& closure = nullptr);
  void zero_grad(bool set_to_none = true) { optim_.zero_grad(set_to_none); }
  std::vector<torch::optim::OptimizerParamGroup>& param_groups() { return optim_.param_groups(); }
  PeriodicModelAverager& averager() { return averager_; }

 private:
  torch::optim::Optimizer& optim_;
  PeriodicModelAverager averager_;
};

}  // namespace muster
