// Gradients of low rank instead of whole ones between data-parallel ranks: PyTorch's powerSGD_hook (Vogels et
// al., 2019). A matrix of n x m becomes two of n x r and m x r, and what that leaves out is added in the next
// step.
//
//   muster::PowerSGDState state(job, {.matrix_approximation_rank = 2, .start_powerSGD_iter = 1000});
//   model.register_comm_hook(muster::powerSGD_hook(state));
//   train_state.add("power_sgd", state);
//
// The state outlives the backward passes of one model. What it adds from step to step is each rank's own: a
// checkpoint that other ranks go on with leaves out that of ranks that are gone. On the CPU the backward pass
// waits for the ranks at each bucket. For the training thread.
#pragma once

#include <ATen/core/Generator.h>
#include <cstdint>
#include <map>
#include <memory>
#include <muster/comm/group.h>
#include <random>
#include <torch/csrc/distributed/c10d/comm.hpp>

namespace muster {

class LoadedState;
class SavedState;

struct PowerSGDOptions {
  std::int64_t matrix_approximation_rank = 1;
  std::int64_t start_powerSGD_iter =
      1000;                         // NOLINT(readability-identifier-naming): before it, whole gradients
  double min_compression_rate = 2;  // a matrix of which less would be saved is sent whole
  bool use_error_feedback = true;
  bool warm_start = true;                // with the factors of the step before
  double orthogonalization_epsilon = 0;  // above 0 where gradients may be all zero
  std::uint32_t random_seed = 0;
};

class PowerSGDState {
 public:
  // std::invalid_argument names the option that is wrong.
  explicit PowerSGDState(Group group, const PowerSGDOptions& options = {});

  std::int64_t iter() const { return iter_; }  // steps
  // Numbers of gradients until now, and of what was sent for them; since start_powerSGD_iter.
  std::int64_t numel_before_compression() const { return before_; }
  std::int64_t numel_after_compression() const { return after_; }

  // For TrainState.
  void save(SavedState& to) const;
  void load(LoadedState& from);

 private:
  friend class LowRankHook;
  friend class PowerSGDHook;
  friend class BatchedPowerSGDHook;
  at::Generator next_generator();  // the same on all ranks

  Group group_;
  PowerSGDOptions options_;
  std::int64_t iter_ = 0, before_ = 0, after_ = 0;
  std::mt19937 random_;
  std::int64_t random_draws_ = 0;
  // By bucket.
  std::map<std::int64_t, at::Tensor> errors_, factors_;
};

std::unique_ptr<c10d::CommHookInterface> powerSGD_hook(PowerSGDState& state);
// PyTorch's batched_powerSGD_hook: all gradients of a bucket are one square matrix, which is faster and less
// exact. min_compression_rate has no meaning.
std::unique_ptr<c10d::CommHookInterface> batched_powerSGD_hook(PowerSGDState& state);

}  // namespace muster
