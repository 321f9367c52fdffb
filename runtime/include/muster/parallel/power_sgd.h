// Data-parallel ranks exchange low-rank approximations instead of whole gradients: PyTorch's powerSGD_hook
// (Vogels et al., 2019). A gradient of n x m becomes two matrices of n x r and m x r, where r is
// matrix_approximation_rank; the error of the approximation is added to the next step's gradient.
//
//   muster::PowerSGDState state(job, {.matrix_approximation_rank = 2, .start_powerSGD_iter = 1000});
//   model.register_comm_hook(muster::powerSGD_hook(state));
//   train_state.add("power_sgd", state);
//
// The state must outlive the backward passes; use it for one model. Each rank's state carries its own error
// from step to step: if fewer ranks resume from a checkpoint, the errors of the missing ranks are lost. On
// the CPU the backward pass waits for the other ranks at each bucket. Only the training thread may use the
// state.
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
  // The number of steps at the start in which gradients are sent whole, without compression.
  std::int64_t start_powerSGD_iter = 1000;  // NOLINT(readability-identifier-naming)
  double min_compression_rate = 2;          // a matrix that would be compressed less is sent whole
  bool use_error_feedback = true;
  bool warm_start = true;                // start from the previous step's factors
  double orthogonalization_epsilon = 0;  // set it above 0 if gradients can be all zero
  std::uint32_t random_seed = 0;
};

class PowerSGDState {
 public:
  // Throws std::invalid_argument, which names the option that is wrong.
  explicit PowerSGDState(Group group, const PowerSGDOptions& options = {});

  std::int64_t iter() const { return iter_; }  // steps done
  // These two count from step start_powerSGD_iter on. The first returns the number of values that the
  // gradients had. The second returns the number of values that were sent for them.
  std::int64_t numel_before_compression() const { return before_; }
  std::int64_t numel_after_compression() const { return after_; }

  // TrainState calls these.
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
  // The key is the number of a bucket.
  std::map<std::int64_t, at::Tensor> errors_, factors_;
};

std::unique_ptr<c10d::CommHookInterface> powerSGD_hook(PowerSGDState& state);
// PyTorch's batched_powerSGD_hook. It treats all gradients of a bucket as one square matrix, which is faster
// and less exact. The option min_compression_rate has no effect.
std::unique_ptr<c10d::CommHookInterface> batched_powerSGD_hook(PowerSGDState& state);

}  // namespace muster
