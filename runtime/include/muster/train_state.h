// All that a training needs to go on as if it had never stopped: parameters, buffers, optimizer, position in
// the data, random generators, and the order in which gradients are reduced.
//
//   auto state = muster::TrainState(model, optimizer, loader);
//   state.add("average", average);  // of the program's own; see add()
//
// It refers to these objects, which must outlive it, and copies nothing until a Checkpointer asks. Everything
// is kept by name, so a checkpoint does not depend on the order of parameters in the optimizer. What belongs
// to all ranks (parameters, optimizer, what is added) is taken to be equal on all of them; generators, and
// buffers that are not broadcast, are each rank's own. Not saved, so to be set up by the program as in the
// run before: options of the optimizer other than the learning rate, generators other than the default ones
// (rand(), <random>), a ReduceLROnPlateauScheduler. For one thread, the training thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <muster/data_loader.h>
#include <muster/detail/module.h>
#include <muster/distributed_data_parallel_options.h>
#include <set>
#include <string>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>
#include <vector>

namespace muster {

class StatePart;

namespace detail {

struct BucketOrderAccess {
  std::function<BucketOrder()> get;
  std::function<void(const BucketOrder&)> check;  // throws what set would
  std::function<void(const BucketOrder&)> set;
};

}  // namespace detail

class TrainState {
 public:
  // `model`: a DistributedDataParallel, a module, a module holder or a shared_ptr to a module. `optimizer`:
  // SGD, Adam, AdamW, RMSprop or Adagrad over parameters of the model. std::invalid_argument if it is
  // another, or has other parameters; std::logic_error if the loader is not in_order.
  template <class Model>
  TrainState(Model& model, torch::optim::Optimizer& optimizer, AnyDataLoader& loader)
      : TrainState(detail::module_of(model), optimizer, loader, has_own_buffers(model)) {
    if constexpr (requires { model.bucket_order(); }) {
      add_bucket_order({.get = [model]() mutable { return model.bucket_order(); },
                        .check = [model](const BucketOrder& order) { model.check_bucket_order(order); },
                        .set = [model](const BucketOrder& order) mutable { model.set_bucket_order(order); }});
    }
  }
  TrainState(TrainState&&) noexcept;
  ~TrainState();

  // More to be saved and restored, under this name; std::invalid_argument if something else has it. A tensor
  // is filled in place and keeps its shape and type. A scheduler (StepLR) gets back its count of steps.
  void add(const std::string& name, at::Tensor tensor);
  void add(const std::string& name, std::int64_t& value);
  void add(const std::string& name, double& value);
  void add(const std::string& name, torch::optim::LRScheduler& scheduler);

  const std::vector<std::unique_ptr<StatePart>>& parts() const { return parts_; }  // for the Checkpointer

 private:
  TrainState(torch::nn::Module& module, torch::optim::Optimizer& optimizer, AnyDataLoader& loader,
             bool own_buffers);
  template <class Model>
  static bool has_own_buffers(const Model& model) {
    if constexpr (requires { model.broadcasts_buffers(); }) return !model.broadcasts_buffers();
    return true;
  }
  void add_named(const std::string& name, std::unique_ptr<StatePart> part);
  void add_bucket_order(detail::BucketOrderAccess access);

  std::vector<std::unique_ptr<StatePart>> parts_;
  std::set<std::string> names_;  // that add() was given
};

}  // namespace muster
