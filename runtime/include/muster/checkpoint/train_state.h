// Everything that a training needs to continue as if it had never stopped: parameters, buffers, optimizer,
// position in the data, random generators, and the order in which gradients are reduced.
//
//   auto state = muster::TrainState(model, optimizer, loader);
//   state.add("average", average);  // the program's own objects; see add()
//
// or, for a pipeline, muster::TrainState(schedule, optimizer, loader).
//
// A TrainState refers to these objects, which must outlive it, and copies nothing until a Checkpointer asks.
// Everything is stored by name, so a checkpoint depends neither on the order of parameters in the optimizer
// nor on the number of ranks.
// - Parameters and optimizers must be equal on all ranks that have them; the ranks compare them.
// - For other objects that the program adds, rank 0's values are saved.
// - Generators, and buffers that are not broadcast, are saved for each rank.
// - Generators other than torch's default ones (rand(), <random>) are not saved: the program must set them up
//   as in the run before.
// Only one thread, the training thread, may use a TrainState.
#pragma once

#include <ATen/core/Tensor.h>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <muster/checkpoint/state_part.h>
#include <muster/comm/detail/module.h>
#include <muster/data/data_loader.h>
#include <set>
#include <string>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>
#include <torch/optim/schedulers/reduce_on_plateau_scheduler.h>
#include <utility>
#include <vector>

namespace muster {

namespace detail {

// A DistributedDataParallel's buckets, in the order of reduction; each lists the names of its parameters.
using BucketNames = std::vector<std::vector<std::string>>;
struct BucketOrderAccess {
  std::function<BucketNames()> get;
  std::function<void(const BucketNames&)> check;  // throws what `set` would throw
  std::function<void(const BucketNames&)> set;
};

template <class Value, class... Other>
concept OneOf = (std::same_as<Value, Other> || ...);
template <class Value>
concept SavedElement = OneOf<Value, bool, int, std::int64_t, float, double, std::string>;
template <class Value>
constexpr bool kIsSavedVector = false;
template <SavedElement Element>
constexpr bool kIsSavedVector<std::vector<Element>> = true;
// A bool, int, std::int64_t, float, double or std::string, or a vector of these.
template <class Value>
concept SavedValue = SavedElement<Value> || kIsSavedVector<Value>;
template <class Object>
concept SavesItself = requires(Object& object, SavedState& to, LoadedState& from) {
  object.save(to);
  object.load(from);
};

// True for a PipelineSchedule.
template <class Schedule>
concept HasStages = requires(Schedule& schedule) { schedule.stages().front().module(); };

template <SavesItself Object>
class ObjectPart : public StatePart {
 public:
  explicit ObjectPart(Object& object) : object_(object) {}
  void save(SavedState& to) override { object_.save(to); }
  void check(LoadedState& from) override { object_.load(from); }

 private:
  Object& object_;
};

}  // namespace detail

class TrainState {
 public:
  // `model` is a DistributedDataParallel, a module, a module holder or a shared_ptr to a module. `optimizer`
  // is one of torch's optimizers or a SavedOptimizer, and its parameters must belong to the model. For any
  // other optimizer or parameters, throws std::invalid_argument. Throws std::logic_error if the loader is not
  // in_order.
  template <class Model>
  TrainState(Model& model, torch::optim::Optimizer& optimizer, AnyDataLoader& loader)
      : TrainState(detail::module_of(model), optimizer, loader, has_own_buffers(model)) {
    add_bucket_order_of(model, "bucket_order");
  }
  // Holds all stages of this rank, as parts of the undivided model, and the number of steps that the schedule
  // has done. A run that divides the model in another way, or not at all, can resume from the checkpoint.
  // `optimizer` must have the parameters schedule.parameters(). The constructor is collective over the group
  // of the stages. If the loaders of the group's ranks read different samples, all ranks of the group throw
  // std::invalid_argument.
  template <detail::HasStages Schedule>
  TrainState(Schedule& schedule, torch::optim::Optimizer& optimizer, AnyDataLoader& loader)
      : TrainState(modules_of(schedule), optimizer, loader) {
    require_same_samples(schedule.stages().front().group(), loader);
    add("schedule", schedule);
  }
  // At first, the TrainState holds only the random generators. Add modules, optimizers and loaders by name,
  // as many as needed.
  TrainState();
  TrainState(TrainState&&) noexcept;
  ~TrainState();

  // Adds an object to be saved and restored under this name. Throws std::invalid_argument if the name is
  // taken.
  // restore() fills a tensor in place, so its shape and type must not change; a vector gets its saved length.
  // Text must be UTF-8. A scheduler such as StepLR gets back its count of steps. A ReduceLROnPlateauScheduler
  // gets back the metrics that it has seen.
  void add(const std::string& name, at::Tensor tensor);
  template <detail::SavedValue Value>
  void add(const std::string& name, Value& value) {
    add_value(name, value);
  }
  void add(const std::string& name, torch::optim::LRScheduler& scheduler);
  void add(const std::string& name, torch::optim::ReduceLROnPlateauScheduler& scheduler);
  // Adds another module, such as an average of the model or a teacher, in any form that the constructor
  // accepts. Its name must not contain a dot. Its shapes and types must not change.
  template <detail::IsModel Model>
  void add(const std::string& name, Model& model) {
    add_module(name, detail::module_of(model), has_own_buffers(model));
    add_bucket_order_of(model, "bucket_order." + name);
  }

  // Adds another optimizer. Its parameters must belong to modules that have been added before. Its name must
  // not contain a dot.
  void add(const std::string& name, torch::optim::Optimizer& optimizer);
  void add(const std::string& name, AnyDataLoader& loader);
  // Adds an object of the program that has the functions save(SavedState&) and load(LoadedState&), such as a
  // gradient scaler. load() requests tensors with fill(). The tensors are filled after load() has returned.
  // load() reads values with value() or number(). If a checkpoint is found to be damaged, load() is called
  // again with another checkpoint.
  void add(const std::string& name, std::unique_ptr<StatePart> part);
  template <detail::SavesItself Object>
    requires(!detail::IsModel<Object> && !std::derived_from<Object, torch::optim::Optimizer>)
  void add(const std::string& name, Object& object) {
    add(name, std::unique_ptr<StatePart>(std::make_unique<detail::ObjectPart<Object>>(object)));
  }

  const std::vector<std::unique_ptr<StatePart>>& parts() const { return parts_; }  // for the Checkpointer

 private:
  TrainState(torch::nn::Module& module, torch::optim::Optimizer& optimizer, AnyDataLoader& loader,
             bool own_buffers);
  TrainState(const std::vector<torch::nn::Module*>& stages, torch::optim::Optimizer& optimizer,
             AnyDataLoader& loader);
  template <class Schedule>
  static std::vector<torch::nn::Module*> modules_of(const Schedule& schedule) {
    std::vector<torch::nn::Module*> modules;
    for (const auto& stage : schedule.stages()) modules.push_back(stage.module().get());
    return modules;
  }
  static void require_same_samples(const Group& group, const AnyDataLoader& loader);
  template <class Model>
  static bool has_own_buffers(const Model& model) {
    if constexpr (requires { model.broadcasts_buffers(); }) return !model.broadcasts_buffers();
    return true;
  }
  void add_named(const std::string& name, std::unique_ptr<StatePart> part);
  // This function has no constraint (SavedValue), because it is in the library, and compilers disagree on the
  // symbol name of a constrained function.
  template <class Value>
  void add_value(const std::string& name, Value& value);
  void add_module(const std::string& name, torch::nn::Module& module, bool own_buffers);
  void add_bucket_order(const std::string& key, detail::BucketOrderAccess access);
  template <class Model>
  void add_bucket_order_of(Model& model, const std::string& key) {
    if constexpr (requires { model.bucket_order(); }) {
      add_bucket_order(
          key, {.get = [model]() mutable { return model.bucket_order(); },
                .check = [model](const detail::BucketNames& order) { model.check_bucket_order(order); },
                .set = [model](const detail::BucketNames& order) mutable { model.set_bucket_order(order); }});
    }
  }

  std::vector<std::unique_ptr<StatePart>> parts_;
  std::set<std::string> names_;  // names given to add()
  // All modules. Each has the prefix that its parameters' names have in the optimizers.
  std::vector<std::pair<std::string, torch::nn::Module*>> modules_;
};

}  // namespace muster
