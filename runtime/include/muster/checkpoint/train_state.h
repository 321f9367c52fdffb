// All that a training needs to go on as if it had never stopped: parameters, buffers, optimizer, position in
// the data, random generators, and the order in which gradients are reduced.
//
//   auto state = muster::TrainState(model, optimizer, loader);
//   state.add("average", average);  // of the program's own; see add()
//
// or, of a pipeline, muster::TrainState(schedule, optimizer, loader).
//
// It refers to these objects, which must outlive it, and copies nothing until a Checkpointer asks. Everything
// is kept by name, so a checkpoint does not depend on the order of parameters in the optimizer, nor on the
// number of ranks. Parameters and optimizers are equal on all ranks that have them, which is compared; of
// what is added, rank 0's counts; generators, and buffers that are not broadcast, are each rank's own. Not
// saved, so to be set up by the program as in the run before: generators other than the default ones
// (rand(), <random>). For one thread, the training thread.
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

// The order of a DistributedDataParallel's buckets, and the names of the parameters in each.
using BucketNames = std::vector<std::vector<std::string>>;
struct BucketOrderAccess {
  std::function<BucketNames()> get;
  std::function<void(const BucketNames&)> check;  // throws what set would
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

// A PipelineSchedule.
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
  // `model`: a DistributedDataParallel, a module, a module holder or a shared_ptr to a module. `optimizer`:
  // one of torch's, or one that is a SavedOptimizer, over parameters of the model. std::invalid_argument if
  // it is another, or has other parameters; std::logic_error if the loader is not in_order.
  template <class Model>
  TrainState(Model& model, torch::optim::Optimizer& optimizer, AnyDataLoader& loader)
      : TrainState(detail::module_of(model), optimizer, loader, has_own_buffers(model)) {
    add_bucket_order_of(model, "bucket_order");
  }
  // All stages of this rank, as parts of the undivided model that they are, and the schedule's count of
  // steps. `optimizer`: over schedule.parameters(). So any other cut of the model, and the whole model, can
  // go on. Collective over the group of the stages; std::invalid_argument, on all its ranks, if their loaders
  // read other samples than one another.
  template <detail::HasStages Schedule>
  TrainState(Schedule& schedule, torch::optim::Optimizer& optimizer, AnyDataLoader& loader)
      : TrainState(modules_of(schedule), optimizer, loader) {
    require_same_samples(schedule.stages().front().group(), loader);
    add("schedule", schedule);
  }
  // The generators alone, to which modules, optimizers and loaders are added by name: several of each.
  TrainState();
  TrainState(TrainState&&) noexcept;
  ~TrainState();

  // More to be saved and restored, under this name; std::invalid_argument if something else has it. A tensor
  // is filled in place and keeps its shape and type; a vector gets the length that it had, and a text must be
  // UTF-8. A scheduler (StepLR) gets back its count of steps, a ReduceLROnPlateauScheduler what it has seen.
  void add(const std::string& name, at::Tensor tensor);
  template <detail::SavedValue Value>
  void add(const std::string& name, Value& value) {
    add_value(name, value);
  }
  void add(const std::string& name, torch::optim::LRScheduler& scheduler);
  void add(const std::string& name, torch::optim::ReduceLROnPlateauScheduler& scheduler);
  // Another module, in the forms that a model may have: an average of the model, a teacher. Its name may have
  // no dot; its shapes and types stay.
  template <detail::IsModel Model>
  void add(const std::string& name, Model& model) {
    add_module(name, detail::module_of(model), has_own_buffers(model));
    add_bucket_order_of(model, "bucket_order." + name);
  }

  // Another optimizer, over parameters of the modules that the state has by now; its name may have no dot.
  void add(const std::string& name, torch::optim::Optimizer& optimizer);
  void add(const std::string& name, AnyDataLoader& loader);
  // State of a kind of your own. An object with save(SavedState&) and load(LoadedState&), such as a gradient
  // scaler: load() asks for tensors with fill() and takes values at once; it is called again, with another
  // checkpoint, where the first one turns out to be damaged.
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
  // Without a constraint, of which compilers make different names in a library.
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
  std::set<std::string> names_;  // that add() was given
  // With what stands before the names of their parameters in those of optimizers.
  std::vector<std::pair<std::string, torch::nn::Module*>> modules_;
};

}  // namespace muster
