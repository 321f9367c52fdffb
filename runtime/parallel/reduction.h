// A Reduction makes a c10d::Reducer and offers the functions that Muster needs from it. No other code uses
// c10d::Reducer.
//
// A Reduction keeps the process group and the parameters alive. Only the training thread uses it. All ranks
// must call the same functions in the same order; order() and settled() are exceptions.
#pragma once

#include <memory>
#include <muster/parallel/distributed_data_parallel_options.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <vector>

#include "runtime/parallel/reduced_parameters.h"

namespace muster {

class Reduction {
 public:
  // The buckets in order. Each has the indices of the parameters that it reduces together.
  using Order = std::vector<std::vector<std::size_t>>;

  Reduction(const ReducedParameters& parameters, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
            const DistributedDataParallelOptions& options);

  void register_comm_hook(std::unique_ptr<c10d::CommHookInterface> hook) {
    reducer_->register_comm_hook(std::move(hook));
  }

  void prepare_forward() { reducer_->prepare_for_forward(); }
  void prepare_backward(const std::vector<at::Tensor>& outputs) { reducer_->prepare_for_backward(outputs); }
  // Call this at the end of the first backward pass of a static graph.
  void reduce_all() { reducer_->delay_all_reduce(); }
  // Call rebuild_buckets() before a forward pass. After the first backward pass it rebuilds the buckets in
  // the order in which gradients arrived, or in the order of pin().
  void rebuild_buckets();
  // Returns true if the buckets are not rebuilt yet. Rebuilding is a collective.
  bool will_rebuild() const { return reducer_->should_rebuild_buckets(); }
  void pin(const Order& order);

  bool settled() const { return !pinned_.empty() || !will_rebuild(); }
  Order order() const { return pinned_.empty() ? current_order() : pinned_; }

  // Sets the divisor of the next backward pass. `active` is an all-reduce of one number, and its result
  // becomes the divisor. If `active` is null, the divisor is the number of ranks.
  void divide_by(c10::intrusive_ptr<c10d::Work> active);
  // Call it while the other ranks run a backward pass. This rank then takes part in the collectives of that
  // pass, with gradients of zero.
  void shadow_backward();

 private:
  Order current_order() const;

  std::vector<at::Tensor> parameters_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  bool reduces_used_map_;
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;  // never null: the Reducer uses it unchecked
  Order pinned_;
};

}  // namespace muster
