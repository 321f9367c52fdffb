// Steps that survive running out of memory, and the search for a batch size that fits, on all ranks at once.
//
//   muster::OomSafeStep oom_safe_step(model, job);
//   state.add("oom_safe_step", oom_safe_step);  // saves the size of microbatches
//   for (auto& batch : loader.epochs(10)) {
//     // The mean loss of these examples.
//     oom_safe_step(batch.data.size(0), [&](std::int64_t begin, std::int64_t count) {
//       const auto output = net->forward(batch.data.narrow(0, begin, count));
//       return loss_of(output, batch.target.narrow(0, begin, count));
//     });
//     optimizer.step();
//   }
//
// Only the training thread may use them. Each rank must have the whole model.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <muster/comm/detail/module.h>
#include <muster/comm/group.h>

namespace muster {

class LoadedState;
class SavedState;

// Returns true if `error` reports that the memory of the CPU or of a GPU ran out. It knows the exceptions and
// texts of torch, C++, CUDA, and the libraries that torch calls.
bool is_out_of_memory(const std::exception& error);

struct OomSafeStepOptions {
  std::int64_t microbatch = 0;  // initial size; 0: the whole batch
};

// Runs the forward and backward pass of a batch and reduces its gradients. It processes microbatches one
// after the other, without DistributedDataParallel. If a microbatch does not fit into the memory of some
// rank, all ranks repeat the step with microbatches of half the size and the same data, buffers and random
// numbers, and keep that size.
// All ranks agree that the pass is complete before they reduce gradients. So the reduction does not overlap
// with the backward pass.
// Gradients are those of the whole batch, except for rounding and BatchNorm, which sees microbatches.
// `loss` calls the module itself, returns the mean over its examples, and must not communicate with other
// ranks. So the model can have no SyncBatchNorm. DistributedDataParallel's static_graph must be false.
//
// All ranks repeat a step if one of them lacks memory for a microbatch, for a copy of the module's buffers,
// or for DistributedDataParallel's reduction. If memory runs out elsewhere, only that rank throws, and the
// others wait until it has ended. This concerns:
// - the broadcast of rank 0's buffers before a step
// - the memory of communication hooks and libraries
// - the first optimizer.step(), which allocates the optimizer's state
class OomSafeStep {
 public:
  using Loss = std::function<at::Tensor(std::int64_t begin, std::int64_t count)>;

  template <detail::IsModel Model>
  OomSafeStep(Model& model, Group group, const OomSafeStepOptions& options = {})
      : OomSafeStep(detail::module_of(model), std::move(group), options) {
    if constexpr (requires { model.reduce_grads(); }) {
      begin_ = [&model] { model.broadcast_buffers(); };
      reduction_bytes_ = [&model] { return model.reduction_bytes(); };
      reduce_ = [&model] { model.reduce_grads(); };
    }
  }

  // `size` is this rank's number of examples, at least 1. Returns this rank's mean loss. If not even one
  // example fits into memory, throws std::runtime_error on all ranks. An error that is not about memory is
  // thrown again.
  at::Tensor operator()(std::int64_t size, const Loss& loss);

  std::int64_t microbatch() const { return microbatch_; }  // 0: the whole batch
  std::int64_t retries() const { return retries_; }
  double lost_seconds() const { return lost_seconds_; }  // time lost in repeated steps

  // TrainState calls these.
  void save(SavedState& to) const;
  void load(LoadedState& from);

 private:
  OomSafeStep(torch::nn::Module& module, Group group, const OomSafeStepOptions& options);
  at::Tensor attempt(std::int64_t size, const Loss& loss) const;

  torch::nn::Module& module_;
  Group group_;
  std::int64_t microbatch_;
  std::int64_t steps_ = 0, retries_ = 0;
  double lost_seconds_ = 0;
  std::function<void()> begin_, reduce_;
  std::function<std::int64_t()> reduction_bytes_;
};

struct FindBatchSizeOptions {
  std::int64_t first = 1;
  std::int64_t most = 65536;
};

namespace detail {
std::int64_t find_batch_size(torch::nn::Module& module, const Group& group,
                             const std::function<void(std::int64_t)>& trial,
                             const FindBatchSizeOptions& options);
}  // namespace detail

// Returns the largest size at which `trial` fits into the memory of every rank. Doubles the size, from
// `options.first` on, until a trial fails, and then bisects. `trial` runs a forward and backward pass on
// made-up data, without communication. The model keeps its parameters and buffers but has no gradients
// afterwards; random numbers are restored. Leave some memory free: optimizers allocate state in their first
// step. Throws std::runtime_error if not even `first` fits.
template <detail::IsModel Model>
std::int64_t find_batch_size(Model& model, const Group& group, const std::function<void(std::int64_t)>& trial,
                             const FindBatchSizeOptions& options = {}) {
  return detail::find_batch_size(detail::module_of(model), group, trial, options);
}

}  // namespace muster
