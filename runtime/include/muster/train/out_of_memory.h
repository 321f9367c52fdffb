// Steps that survive running out of memory, and the search for a batch size that fits, on all ranks at once.
//
//   muster::OomSafeStep oom_safe_step(model, job);
//   state.add("oom_safe_step", oom_safe_step);  // the size of microbatches goes on
//   for (auto& batch : loader.epochs(10)) {
//     // The mean loss of these examples.
//     oom_safe_step(batch.data.size(0), [&](std::int64_t begin, std::int64_t count) {
//       const auto output = net->forward(batch.data.narrow(0, begin, count));
//       return loss_of(output, batch.target.narrow(0, begin, count));
//     });
//     optimizer.step();
//   }
//
// For the training thread of ranks that are equal and of the whole model.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <muster/comm/detail/module.h>
#include <muster/comm/group.h>

namespace muster {

class LoadedState;
class SavedState;

// Whether `error` says that the CPU's or a GPU's memory is used up, in the words of torch, C++, CUDA or a
// library that torch calls.
bool is_out_of_memory(const std::exception& error);

struct OomSafeStepOptions {
  std::int64_t microbatch = 0;  // to begin with; 0: the whole batch
};

// Forward and backward pass of a batch, its gradients reduced. Microbatches come one after the other, without
// DistributedDataParallel; where one of any rank does not fit into memory, all ranks begin the step anew,
// with microbatches of half the size, the same data, buffers and random numbers, and stay with that size. All
// ranks have agreed that they are through before gradients are reduced; so reduction does not overlap with
// the backward pass, which is the price. Gradients are those of the whole batch but for rounding, and
// BatchNorm, which sees microbatches. `loss` calls the module itself, gives the mean of its examples, and may
// not talk to other ranks (SyncBatchNorm does). Not with static_graph.
//
// What ranks agree on is memory for the microbatches, for the copy of the module's buffers that is kept
// meanwhile, and for the reduction of DistributedDataParallel. A lack of memory elsewhere is one rank's
// alone, which throws it while the others wait until that rank has ended: in the broadcast of rank 0's
// buffers before a step, in what a communication hook or library takes for itself, and in optimizer.step(),
// which makes its state in the first one.
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

  // `size`: examples of this rank, 1 at least. The mean loss of this rank. std::runtime_error on all ranks
  // where not even one example fits. What is no lack of memory is thrown on.
  at::Tensor operator()(std::int64_t size, const Loss& loss);

  std::int64_t microbatch() const { return microbatch_; }  // 0: the whole batch
  std::int64_t retries() const { return retries_; }
  double lost_seconds() const { return lost_seconds_; }  // in what was begun anew

  // For TrainState.
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

// The largest size at which `trial` (a forward and backward pass of made-up data, on this rank alone) fits
// into the memory of each rank: by doubling, then by bisection. The model is left as it was, without
// gradients, and so are random numbers. Leave some room: optimizers keep state from their first step on.
// std::runtime_error if not even the first one fits.
template <detail::IsModel Model>
std::int64_t find_batch_size(Model& model, const Group& group, const std::function<void(std::int64_t)>& trial,
                             const FindBatchSizeOptions& options = {}) {
  return detail::find_batch_size(detail::module_of(model), group, trial, options);
}

}  // namespace muster
