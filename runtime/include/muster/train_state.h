// All that a training needs to go on as if it had never stopped: parameters, buffers, optimizer, position in
// the data, random generators, and the order in which gradients are reduced.
//
//   auto state = muster::TrainState(model, optimizer, loader);
//   state.add("average", average);  // a tensor, or a std::int64_t or double, of the program's own
//
// It refers to these objects, which must outlive it, and copies nothing until a Checkpointer asks. Everything
// is kept by name, so a checkpoint does not depend on the order of parameters in the optimizer. What belongs
// to all ranks (parameters, buffers, optimizer, added values) is taken to be equal on all of them; the
// generators are each rank's own. For one thread, the training thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <memory>
#include <muster/data_loader.h>
#include <string>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <type_traits>
#include <vector>

namespace muster {

class StatePart;

class TrainState {
 public:
  // `model`: a DistributedDataParallel, a module, a module holder or a shared_ptr to a module. `optimizer`:
  // SGD, Adam, AdamW, RMSprop or Adagrad over parameters of the model. std::invalid_argument if it is
  // another, or has other parameters.
  template <class Model>
  TrainState(Model& model, torch::optim::Optimizer& optimizer, DataLoader& loader)
      : TrainState(module_of(model), optimizer, loader) {
    if constexpr (requires { model.bucket_order(); }) {
      add_bucket_order([model]() mutable { return model.bucket_order(); },
                       [model](const BucketOrder& order) mutable { model.set_bucket_order(order); });
    }
  }
  TrainState(torch::nn::Module& module, torch::optim::Optimizer& optimizer, DataLoader& loader);
  TrainState(TrainState&&) noexcept;
  ~TrainState();

  // More to be saved and restored, under this name. A tensor is filled in place and keeps its shape.
  void add(const std::string& name, at::Tensor tensor);
  void add(const std::string& name, std::int64_t& value);
  void add(const std::string& name, double& value);

  const std::vector<std::unique_ptr<StatePart>>& parts() const { return parts_; }  // for the Checkpointer

 private:
  using BucketOrder = std::vector<std::vector<std::string>>;
  template <class Model>
  static torch::nn::Module& module_of(Model& model) {
    if constexpr (std::is_base_of_v<torch::nn::Module, Model>) {
      return model;
    } else if constexpr (requires { model.bucket_order(); }) {
      return *model.module();
    } else {
      return *model;
    }
  }
  void add_bucket_order(std::function<BucketOrder()> get, std::function<void(const BucketOrder&)> set);

  std::vector<std::unique_ptr<StatePart>> parts_;
};

}  // namespace muster
