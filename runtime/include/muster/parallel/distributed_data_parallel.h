// Data-parallel training of a module, over a whole job or a group: every rank runs its own batch, and
// backward() leaves the mean gradient on all ranks.
//
//   auto model = muster::DistributedDataParallel(Net(), job);
//   torch::nn::functional::cross_entropy(model(images), labels).backward();
//
// It uses the same engine as PyTorch's DistributedDataParallel (c10d::Reducer), and has the same options,
// defaults and results, to the last bit. It wraps a module, a module holder or a shared_ptr to one. Copies
// refer to the same model. The constructor, model(...), join() and bucket_order() are collective. One thread
// at a time may use it. Parameters keep the module's names; a parameter that is frozen at construction must
// stay frozen. The module must be on the job's device: net->to(job.device()).
#pragma once

#include <memory>
#include <muster/comm/detail/module.h>
#include <muster/comm/job.h>
#include <muster/parallel/detail/data_parallel_engine.h>
#include <muster/parallel/distributed_data_parallel_options.h>
#include <string>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {

// While a NoSync exists, backward() only accumulates gradients. The first backward() after it reduces the
// sum.
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
  static_assert(std::is_base_of_v<torch::nn::Module, Module>,
                "DistributedDataParallel<M>: M must be the module's class, such as torch::nn::LinearImpl, "
                "or write no <M>: DistributedDataParallel model(net, job)");

 public:
  // Throws std::invalid_argument, which names what is wrong with the model, its device or an option. If the
  // ranks' models or options differ, all ranks throw std::invalid_argument with the first difference.
  explicit DistributedDataParallel(std::shared_ptr<Module> module, const Group& group,
                                   DistributedDataParallelOptions options = {})
      : module_(std::move(module)),
        engine_(std::make_shared<detail::DataParallelEngine>(module_, group, options)) {}
  template <class Other>
  explicit DistributedDataParallel(Other module, const Group& group,
                                   DistributedDataParallelOptions options = {})
      : DistributedDataParallel(std::shared_ptr<Module>(detail::module_pointer(std::move(module))), group,
                                options) {}

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

  // Call this after backward passes without reduction, which have added their gradients to grad() of each
  // parameter. It reduces these sums over the ranks, without a further backward pass of the program.
  // - If some ranks have not used a parameter, its gradient counts as zero on these ranks. A parameter that
  //   no rank has used, or that is frozen, keeps no gradient.
  // - The function is collective. It begins with a small all-reduce.
  // - Throws std::logic_error within join(), with static_graph, and for sparse gradients.
  // - Without find_unused_parameters, all ranks throw std::logic_error if a rank froze a parameter after
  //   construction.
  // - With find_unused_parameters, all ranks throw std::logic_error if a rank froze every parameter that
  //   other ranks used.
  void reduce_grads() { engine_->reduce_grads(); }
  // Returns an upper limit for the bytes that reduce_grads() would allocate on this rank now. Memory of the
  // communication library is not included.
  std::int64_t reduction_bytes() const { return engine_->reduction_bytes(); }
  // Sends rank 0's buffers to all ranks as forward() does, for a step that calls the module's own forward().
  void broadcast_buffers() { engine_->broadcast_buffers(); }

  // Reduces buckets with the program's own hook, which must be the same on all ranks. Call it once, before
  // the first backward(), and without a comm_hook among the options. The hook itself divides by the number of
  // ranks.
  void register_comm_hook(std::unique_ptr<c10d::CommHookInterface> hook) {
    engine_->register_comm_hook(std::move(hook));
  }

  // Runs `body`, which contains this rank's training loop. Use join() if ranks have different numbers of
  // batches. A rank whose loop has ended takes part in the reductions of the other ranks until all loops have
  // ended. Then all ranks get the parameters and buffers of the rank whose loop ended last. If several loops
  // ended last at the same step, all ranks get the values of the highest of these ranks.
  //
  //   model.join([&] {
  //     for (auto& batch : batches) { ...; loss.backward(); optimizer.step(); }
  //   });
  //
  // Collective. Inside the body only this model may communicate. For example, the body must not call
  // barrier() or a Checkpointer. join() rethrows an exception of the body at once; this rank then takes no
  // part in the others' reductions.
  template <class Body>
  void join(Body&& body, JoinOptions options = {}) {
    engine_->join(std::forward<Body>(body), options);
  }

  // Call it instead of optimizer.zero_grad(), which throws on gradients that are views of buckets.
  void zero_grad(bool set_to_none = true) { engine_->zero_grad(set_to_none); }

  // Returns the order in which gradients are reduced. It changes once: after the first backward() it becomes
  // the order in which gradients arrived. To resume bit for bit on 3 ranks or more, a run needs the order of
  // the earlier run, so checkpoints contain it. Before the first backward(), this returns an empty order,
  // because there is nothing to save yet.
  BucketOrder bucket_order() { return engine_->bucket_order(); }
  // From now on, gradients are reduced in this order. If `order` is empty, nothing changes. If it does not
  // fit the model, throws std::invalid_argument.
  void set_bucket_order(const BucketOrder& order) { engine_->set_bucket_order(order); }
  // Throws what set_bucket_order() would throw, and changes nothing.
  void check_bucket_order(const BucketOrder& order) const { engine_->check_bucket_order(order); }
  bool broadcasts_buffers() const { return engine_->broadcasts_buffers(); }

  // The wrapped module. Its own forward() does not take part in the reduction.
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

// torch::nn::Linear is a holder of the module torch::nn::LinearImpl.
// DistributedDataParallel<torch::nn::Linear> works as DistributedDataParallel<torch::nn::LinearImpl>.
template <class Holder>
  requires std::is_base_of_v<torch::detail::ModuleHolderIndicator, Holder>
class DistributedDataParallel<Holder> : public DistributedDataParallel<typename Holder::ContainedType> {
  using DistributedDataParallel<typename Holder::ContainedType>::DistributedDataParallel;
};

template <class Module>
DistributedDataParallel(Module, const Group&) -> DistributedDataParallel<
    typename decltype(detail::module_pointer(std::declval<Module>()))::element_type>;
template <class Module>
DistributedDataParallel(Module, const Group&, DistributedDataParallelOptions) -> DistributedDataParallel<
    typename decltype(detail::module_pointer(std::declval<Module>()))::element_type>;

}  // namespace muster
