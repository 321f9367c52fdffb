// Data-parallel training of a module: every rank runs its own batch, and backward() leaves the mean gradient
// in all of them.
//
//   auto model = muster::DistributedDataParallel(Net(), job);
//   auto loss = torch::nn::functional::cross_entropy(model(images), labels);
//   loss.backward();
//
// It is PyTorch's DistributedDataParallel on the same engine (c10d::Reducer): options, defaults and results
// are the same, to the last bit. Wraps a module, a module holder or a shared_ptr to one; a copy is another
// handle on the same model. Parameter names are the module's own, without a "module." in front. Constructing
// it, model(...) and bucket_order() are collective: all ranks do them in the same order. One thread at a
// time. Parameters, their devices and requires_grad stay as they are from construction on.
#pragma once

#include <memory>
#include <muster/job.h>
#include <optional>
#include <string>
#include <torch/nn/module.h>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {

struct DistributedDataParallelOptions {
  bool broadcast_buffers = true;                       // rank 0's buffers go to all before each forward
  std::optional<double> bucket_cap_mb = std::nullopt;  // none: 25 MiB, and the first bucket 1 MiB
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view =
      false;  // saves a copy of the gradients; then call zero_grad() of this class, not the optimizer's
  bool static_graph = false;
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
  BucketOrder bucket_order();
  void set_bucket_order(const BucketOrder& order);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// While it lives, backward() only accumulates; the first backward() after it reduces the sum.
class [[nodiscard]] NoSync {
 public:
  explicit NoSync(std::shared_ptr<DataParallelEngine> engine)
      : engine_(std::move(engine)), before_(engine_->set_sync(false)) {}
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;
  ~NoSync() { engine_->set_sync(before_); }

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

// The tensors in what a module returned: a tensor, or containers and tuples of them.
template <class Value>
void collect_tensors(Value& value, std::vector<torch::Tensor*>& tensors) {
  if constexpr (std::is_same_v<Value, torch::Tensor>) {
    tensors.push_back(&value);
  } else if constexpr (requires { std::tuple_size<Value>::value; }) {
    std::apply([&](auto&... element) { (collect_tensors(element, tensors), ...); }, value);
  } else if constexpr (requires { value.begin() != value.end(); }) {
    for (auto& element : value) collect_tensors(element, tensors);
  } else if constexpr (requires { value.second; }) {  // an entry of a map
    collect_tensors(value.second, tensors);
  }
}

}  // namespace detail

template <class Module>
class DistributedDataParallel {
 public:
  explicit DistributedDataParallel(std::shared_ptr<Module> module, const Job& job,
                                   DistributedDataParallelOptions options = {})
      : module_(std::move(module)), engine_(std::make_shared<DataParallelEngine>(module_, job, options)) {}
  template <class Other>
  explicit DistributedDataParallel(Other module, const Job& job, DistributedDataParallelOptions options = {})
      : DistributedDataParallel(detail::module_pointer(std::move(module)), job, options) {}

  template <class... Inputs>
  auto forward(Inputs&&... inputs) {
    engine_->before_forward();
    auto output = module_->forward(std::forward<Inputs>(inputs)...);
    std::vector<torch::Tensor*> tensors;
    detail::collect_tensors(output, tensors);
    engine_->after_forward(tensors);
    return output;
  }
  template <class... Inputs>
  auto operator()(Inputs&&... inputs) {
    return forward(std::forward<Inputs>(inputs)...);
  }

  NoSync no_sync() { return NoSync(engine_); }

  // As optimizer.zero_grad(), which throws on gradients that are views of buckets.
  void zero_grad(bool set_to_none = true) { engine_->zero_grad(set_to_none); }

  // The order in which gradients are reduced, which changes once: after the first backward() it becomes the
  // order in which they arrived. A run that resumes bit for bit on 3 ranks or more needs the order of the run
  // before: it is part of the checkpoint. Empty before the first backward(): nothing to save yet.
  BucketOrder bucket_order() { return engine_->bucket_order(); }
  // Reduces in this order from now on; empty: leaves the order alone. Throws std::invalid_argument if it is
  // not of this model.
  void set_bucket_order(const BucketOrder& order) { engine_->set_bucket_order(order); }

  // The module inside. Its forward() called directly does not take part in the reduction.
  const std::shared_ptr<Module>& module() const { return module_; }
  std::vector<torch::Tensor> parameters() const { return module_->parameters(); }
  torch::OrderedDict<std::string, torch::Tensor> named_parameters() const {
    return module_->named_parameters();
  }
  torch::OrderedDict<std::string, torch::Tensor> named_buffers() const { return module_->named_buffers(); }
  void train(bool on = true) { module_->train(on); }
  void eval() { module_->eval(); }

 private:
  std::shared_ptr<Module> module_;
  std::shared_ptr<DataParallelEngine> engine_;
};

template <class Module>
DistributedDataParallel(Module, const Job&) -> DistributedDataParallel<
    typename decltype(detail::module_pointer(std::declval<Module>()))::element_type>;
template <class Module>
DistributedDataParallel(Module, const Job&, DistributedDataParallelOptions) -> DistributedDataParallel<
    typename decltype(detail::module_pointer(std::declval<Module>()))::element_type>;

}  // namespace muster
