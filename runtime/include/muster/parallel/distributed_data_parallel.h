// Data-parallel training of a module: every rank runs its own batch, and backward() leaves the mean gradient
// in all; of the whole job, or of a group.
//
//   auto model = muster::DistributedDataParallel(Net(), job);
//   torch::nn::functional::cross_entropy(model(images), labels).backward();
//
// PyTorch's DistributedDataParallel on the same engine (c10d::Reducer): same options, defaults and results,
// to the last bit. It wraps a module, a module holder or a shared_ptr to one; a copy is another handle on it.
// Constructing it, model(...), join() and bucket_order() are collective; one thread at a time. Parameters
// keep the module's names, and their requires_grad from then on. The module must be on the job's device:
// net->to(job.device()).
#pragma once

#include <memory>
#include <muster/comm/detail/module.h>
#include <muster/comm/job.h>
#include <muster/parallel/detail/data_parallel_engine.h>
#include <muster/parallel/distributed_data_parallel_options.h>
#include <string>
#include <torch/nn/module.h>
#include <utility>
#include <vector>

namespace muster {

// While it lives, backward() only accumulates; the first backward() after it reduces the sum.
class [[nodiscard]] NoSync {
 public:
  explicit NoSync(std::shared_ptr<detail::DataParallelEngine> engine)
      : engine_(std::move(engine)), before_(engine_->set_sync(false)) {}
  NoSync(NoSync&& other) noexcept : engine_(std::move(other.engine_)), before_(other.before_) {}
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;
  ~NoSync() {
    if (engine_) engine_->set_sync(before_);
  }

 private:
  std::shared_ptr<detail::DataParallelEngine> engine_;
  bool before_;
};

template <class Module>
class DistributedDataParallel {
 public:
  // std::invalid_argument names what is wrong with the model, where it is or an option; if ranks differ, on
  // all of them and with the first difference.
  explicit DistributedDataParallel(std::shared_ptr<Module> module, const Group& group,
                                   DistributedDataParallelOptions options = {})
      : module_(std::move(module)),
        engine_(std::make_shared<detail::DataParallelEngine>(module_, group, options)) {}
  template <class Other>
  explicit DistributedDataParallel(Other module, const Group& group,
                                   DistributedDataParallelOptions options = {})
      : DistributedDataParallel(detail::module_pointer(std::move(module)), group, options) {}

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

  // What backward passes that were not reduced have added up in grad(), of this model's module too, is
  // reduced without another one. A parameter that some ranks have not used counts as zero there; one that no
  // rank has used, or that is frozen, keeps no gradient. Collective, with a small all-reduce before it;
  // std::logic_error within join(), with static_graph, of sparse gradients; and on all ranks where one
  // has frozen a parameter after the model was made without find_unused_parameters, or all that others have
  // used.
  void reduce_grads() { engine_->reduce_grads(); }
  // The most that reduce_grads() would take of this rank's memory now, but for what communication takes.
  std::int64_t reduction_bytes() const { return engine_->reduction_bytes(); }
  // What forward() does at first, for a step that calls the module's own.
  void broadcast_buffers() { engine_->broadcast_buffers(); }

  // Reduces buckets in a way of the program's own, on all ranks the same; once, before the first backward(),
  // and with no comm_hook among the options. The hook divides by the number of ranks itself.
  void register_comm_hook(std::unique_ptr<c10d::CommHookInterface> hook) {
    engine_->register_comm_hook(std::move(hook));
  }

  // For ranks with unequal numbers of inputs: `body` is this rank's loop, and a rank that has come to its end
  // takes part in the reductions of the others until all have. Then all get the parameters and buffers of
  // the last, the highest rank among equals.
  //
  //   model.join([&] {
  //     for (auto& batch : batches) { ...; loss.backward(); optimizer.step(); }
  //   });
  //
  // Collective. In the body only this model may communicate: no barrier, no Checkpointer. What the body
  // throws is thrown on, and nothing is shadowed.
  template <class Body>
  void join(Body&& body, JoinOptions options = {}) {
    engine_->join(std::forward<Body>(body), options);
  }

  // As optimizer.zero_grad(), which throws on gradients that are views of buckets.
  void zero_grad(bool set_to_none = true) { engine_->zero_grad(set_to_none); }

  // The order in which gradients are reduced, which changes once: after the first backward() it becomes the
  // order in which they arrived. A run that resumes bit for bit on 3 ranks or more needs the order of the run
  // before: it is part of the checkpoint. Empty before the first backward(): nothing to save yet.
  BucketOrder bucket_order() { return engine_->bucket_order(); }
  // Reduces in this order from now on; empty: leaves the order alone. Throws std::invalid_argument if it is
  // not of this model.
  void set_bucket_order(const BucketOrder& order) { engine_->set_bucket_order(order); }
  // Throws what set_bucket_order would, and changes nothing.
  void check_bucket_order(const BucketOrder& order) const { engine_->check_bucket_order(order); }
  bool broadcasts_buffers() const { return engine_->broadcasts_buffers(); }

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
  std::shared_ptr<detail::DataParallelEngine> engine_;
};

template <class Module>
DistributedDataParallel(Module, const Group&) -> DistributedDataParallel<
    typename decltype(detail::module_pointer(std::declval<Module>()))::element_type>;
template <class Module>
DistributedDataParallel(Module, const Group&, DistributedDataParallelOptions) -> DistributedDataParallel<
    typename decltype(detail::module_pointer(std::declval<Module>()))::element_type>;

}  // namespace muster
