// The part of DistributedDataParallel that does not depend on the type of the module.
//
// Not for direct use: include muster/parallel/distributed_data_parallel.h. Only one thread at a time may use
// an engine. The constructor, before_forward(), join() and bucket_order() are collective.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <muster/comm/detail/tensors.h>
#include <muster/comm/job.h>
#include <muster/parallel/distributed_data_parallel_options.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/nn/module.h>
#include <utility>
#include <vector>

namespace muster::detail {

class DataParallelEngine {
 public:
  DataParallelEngine(std::shared_ptr<torch::nn::Module> module, const Group& group,
                     const DistributedDataParallelOptions& options);
  ~DataParallelEngine();
  DataParallelEngine(const DataParallelEngine&) = delete;
  DataParallelEngine& operator=(const DataParallelEngine&) = delete;

  void before_forward();
  // Prepares the backward pass of these outputs. It can replace an output by a copy, that is, a tensor with
  // the same values.
  void after_forward(const std::vector<torch::Tensor*>& outputs);
  void broadcast_buffers();
  void reduce_grads();
  std::int64_t reduction_bytes() const;
  void zero_grad(bool set_to_none);
  bool set_sync(bool sync);  // returns the old setting
  void register_comm_hook(std::unique_ptr<c10d::CommHookInterface> hook);
  void join(const std::function<void()>& body, const JoinOptions& options);
  BucketOrder bucket_order();
  void check_bucket_order(const BucketOrder& order) const;
  void set_bucket_order(const BucketOrder& order);
  bool broadcasts_buffers() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::detail
