// Each rank takes steps of its own. At intervals, each parameter is replaced by its mean over the ranks. This
// is PyTorch's post-local SGD (Lin et al., 2018).
//
//   // For 100 steps all ranks reduce gradients together. Afterwards only the ranks of a node do, and
//   // parameters are averaged every 4 steps.
//   muster::PostLocalSGDState local(job, node, 100);
//   model.register_comm_hook(muster::post_localSGD_hook(local));
//
//   muster::FusedSGD sgd(model.parameters(), torch::optim::SGDOptions(0.1));
//   muster::PostLocalSGDOptimizer optimizer(sgd, muster::PeriodicModelAverager(job, 4, 100));
//   muster::TrainState state(model, sgd, loader);
//   state.add("local", local);
//   state.add("averager", optimizer.averager());
//
// Between two averages the ranks' parameters differ, but a checkpoint holds one value for all ranks. So save
// only where averager().averaged() is true, and use an optimizer that keeps no state (SGD without momentum).
// Only the training thread may use these classes.
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
  // `group` reduces gradients before step `start_localSGD_iter`, and `subgroup` from this step on. If
  // `subgroup` is empty, ranks keep their own gradients from this step on.
  PostLocalSGDState(Group group, std::optional<Group> subgroup, std::int64_t start_localSGD_iter);

  std::int64_t iter() const { return iter_; }  // steps done
  // TrainState calls these.
  void save(SavedState& to) const;
  void load(LoadedState& from);

 private:
  friend class PostLocalSGDHook;
  Group group_;
  std::optional<Group> subgroup_;
  std::int64_t start_;
  std::int64_t iter_ = 0;
};

// The state must outlive the backward passes; use it for one model.
std::unique_ptr<c10d::CommHookInterface> post_localSGD_hook(PostLocalSGDState& state);

class PeriodicModelAverager {
 public:
  // Throws std::invalid_argument if period < 1 or warmup_steps < 0.
  PeriodicModelAverager(Group group, std::int64_t period, std::int64_t warmup_steps = 0);

  // Call it after each optimizer step. From step warmup_steps on, every `period` steps, it replaces each
  // parameter that has a gradient by its mean over the group.
  void average_parameters(const std::vector<at::Tensor>& parameters);
  std::int64_t step() const { return step_; }  // number of calls
  bool averaged() const { return averaged_; }  // the last call averaged

  // TrainState calls these.
  void save(SavedState& to) const;
  void load(LoadedState& from);

 private:
  Group group_;
  std::int64_t period_, warmup_steps_;
  std::int64_t step_ = 0;
  bool averaged_ = false;
};

// Steps another optimizer, and then calls average_parameters() with the parameters of that optimizer. `optim`
// must outlive this object. Give `optim` to schedulers and checkpoints, not this object.
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
