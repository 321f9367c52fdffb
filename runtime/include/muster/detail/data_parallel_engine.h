// The part of DistributedDataParallel that does not depend on the type of the module.
//
// Not for direct use: include muster/distributed_data_parallel.h. One thread at a time; construction,
// before_forward, join and bucket_order are collective.
#pragma once

#include <functional>
#include <memory>
#include <muster/detail/tensors.h>
#include <muster/job.h>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/nn/module.h>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {

// How the gradients of a bucket are sent. PyTorch's fp16_compress_hook and bf16_compress_hook: half the
// bytes, and a gradient off by at most (ranks + 1) u times the ranks' mean of |gradient|; u is 2^-11 for
// fp16, 2^-8 for bf16. Beyond 65504 fp16 is infinite, and below 6e-5 times the number of ranks it is less
// exact.
enum class CommHook { kNone, kFp16Compress, kBf16Compress };

struct DistributedDataParallelOptions {
  bool broadcast_buffers = true;                       // rank 0's buffers go to all before each forward
  std::optional<double> bucket_cap_mb = std::nullopt;  // none: 25 MiB, and the first bucket 1 MiB
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view =
      false;  // saves a copy of the gradients; then call zero_grad() of this class, not the optimizer's
  bool static_graph = false;
  CommHook comm_hook = CommHook::kNone;
};

struct JoinOptions {
  // True: gradients are divided by the number of ranks, so that every input weighs the same over the whole
  // join. False: by the number of ranks that still train.
  bool divide_by_initial_world_size = true;
  bool throw_on_early_termination = false;  // std::runtime_error on all ranks as soon as one has ended
};

// Which parameters, by name, are reduced together, and in which order.
using BucketOrder = std::vector<std::vector<std::string>>;

// All that does not depend on the type of the module.
class DataParallelEngine {
 public:
  DataParallelEngine(std::shared_ptr<torch::nn::Module> module, const Job& job,
                     const DistributedDataParallelOptions& options);
  ~DataParallelEngine();
  DataParallelEngine(const DataParallelEngine&) = delete;
  DataParallelEngine& operator=(const DataParallelEngine&) = delete;

  void before_forward();
  // May replace the tensors by others of the same value.
  void after_forward(const std::vector<torch::Tensor*>& outputs);
  void zero_grad(bool set_to_none);
  bool set_sync(bool sync);  // returns what it was
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

// While it lives, backward() only accumulates; the first backward() after it reduces the sum.
class [[nodiscard]] NoSync {
 public:
  explicit NoSync(std::shared_ptr<DataParallelEngine> engine)
      : engine_(std::move(engine)), before_(engine_->set_sync(false)) {}
  NoSync(NoSync&& other) noexcept : engine_(std::move(other.engine_)), before_(other.before_) {}
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;
  ~NoSync() {
    if (engine_) engine_->set_sync(before_);
  }

 private:
  std::shared_ptr<DataParallelEngine> engine_;
  bool before_;
};

namespace detail {

template <class Module>
auto module_pointer(Module module) {
  if constexpr (std::is_base_of_v<torch::nn::Module, Module>)
    return std::make_shared<Module>(std::move(module));
  else if constexpr (requires { module.ptr(); })  // a holder, as TORCH_MODULE makes it
    return module.ptr();
  else
    return module;
}

}  // namespace detail

}  // namespace muster
