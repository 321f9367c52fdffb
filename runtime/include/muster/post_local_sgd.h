// Steps of each rank by itself, and now and then the mean of all parameters: PyTorch's post-local SGD (Lin et
// al., 2018).
//
//   // Gradients of all ranks for 100 steps, then of the node; then parameters of all every 4 steps.
//   muster::PostLocalSGDState local(job, node, 100);
//   model.register_comm_hook(muster::post_localSGD_hook(local));
//
//   muster::PeriodicModelAverager averager(job, 4, 100);
//   state.add("local", local);
//   state.add("averager", averager);
//
//   optimizer.step();  // in each step
//   averager.average_parameters(model.parameters());
//
// Between two averages ranks differ: save where averager.averaged(), with an optimizer that keeps no state
// (SGD without momentum), for a checkpoint holds what all ranks have. For the training thread.
#pragma once

#include <cstdint>
#include <memory>
#include <muster/group.h>
#include <optional>
#include <torch/csrc/distributed/c10d/comm.hpp>
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

}  // namespace muster
