// The one file that names c10d::Reducer. It does what torch/nn/parallel/distributed.py of the same release
// does around it.

#include <algorithm>
#include <fmt/core.h>
#include <limits>
#include <muster/distributed_data_parallel.h>
#include <stdexcept>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/nn/modules/embedding.h>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>

#include "common/base/clock.h"
#include "runtime/control/busy_time.h"

namespace muster {
namespace {

constexpr std::size_t kBroadcastBucketBytes = 250 * 1024 * 1024;
constexpr std::size_t kNoLimit = std::numeric_limits<std::int64_t>::max();  // Python's sys.maxsize

using Indices = std::vector<std::vector<std::size_t>>;

struct Parameters {
  std::vector<torch::Tensor> tensors;
  std::vector<std::string> names;
  std::vector<bool> sparse;  // its module gives sparse gradients
};

// Those that need gradients, each once even if modules share it, in the order of named_modules().
Parameters parameters_to_reduce(const torch::nn::Module& module) {
  Parameters parameters;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& entry : module.named_modules("", /*include_self=*/true)) {
    const auto* embedding = entry.value()->as<torch::nn::EmbeddingImpl>();
    const auto* bag = entry.value()->as<torch::nn::EmbeddingBagImpl>();
    const bool sparse =
        (embedding != nullptr && embedding->options.sparse()) || (bag != nullptr && bag->options.sparse());
    for (const auto& parameter : entry.value()->named_parameters(/*recurse=*/false)) {
      if (!parameter.value().requires_grad() || !seen.insert(parameter.value().unsafeGetTensorImpl()).second)
        continue;
      parameters.tensors.push_back(parameter.value());
      parameters.names.push_back(entry.key().empty() ? parameter.key() : entry.key() + "." + parameter.key());
      parameters.sparse.push_back(sparse);
    }
  }
  if (parameters.tensors.empty())
    throw std::invalid_argument(
        "DistributedDataParallel: the module has no parameter that requires a gradient");
  for (const auto& tensor : parameters.tensors)
    if (tensor.device().type() != parameters.tensors.front().device().type())
      throw std::invalid_argument(
          "DistributedDataParallel: the module's parameters are on CPU and GPU; move all to one kind of "
          "device");
  return parameters;
}

void append_detached(const std::vector<torch::Tensor>& tensors, std::vector<torch::Tensor>& all) {
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& tensor : tensors)
    if (tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second) all.push_back(tensor.detach());
}

// 2.8 to 2.10 have no list of caps; releases after 2.11 take one flag more.
template <class Reducer, class... Common>
std::shared_ptr<Reducer> make_reducer(Common... common) {
  using Caps = std::vector<std::int64_t>;
  if constexpr (std::is_constructible_v<Reducer, Common..., bool, bool, Caps, bool>)
    return std::make_shared<Reducer>(std::move(common)..., false, false, Caps{}, false);
  else if constexpr (std::is_constructible_v<Reducer, Common..., bool, bool, Caps>)
    return std::make_shared<Reducer>(std::move(common)..., false, false, Caps{});
  else
    return std::make_shared<Reducer>(std::move(common)..., false, false);
}

// Passes gradients through, and calls a function when the first of them arrives. Unlike the graph's own last
// node it keeps a missing gradient missing, which is how the Reducer learns that an output did not enter the
// loss.
class Sink : public torch::autograd::Node {
 public:
  Sink(torch::autograd::edge_list&& next, std::function<void()> on_backward)
      : Node(std::move(next)), on_backward_(std::move(on_backward)) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    on_backward_();
    return std::move(gradients);
  }

 private:
  std::function<void()> on_backward_;
};

void pass_through_sink(const std::vector<torch::Tensor*>& outputs, std::function<void()> on_backward) {
  std::vector<torch::Tensor*> live;
  std::vector<torch::Tensor> inputs;
  for (torch::Tensor* output : outputs) {
    if (!output->defined() || output->grad_fn() == nullptr) continue;
    live.push_back(output);
    inputs.push_back(*output);
  }
  if (inputs.empty()) return;
  auto sink = std::make_shared<Sink>(torch::autograd::collect_next_edges(inputs), std::move(on_backward));
  for (torch::Tensor* output : live) {
    torch::Tensor copy = output->detach().clone();
    torch::autograd::create_gradient_edge(copy, sink);
    *output = copy;
  }
}

// Of a backward pass on the CPU the Reducer waits for the other ranks at its end: between this rank's last
// gradient and the end of the callback that the Reducer queues when the last bucket is ready. One that is
// queued before, as the first gradient comes, runs just before it, and queues the one after it. A hook that
// returns nothing changes no gradient.
void time_the_wait(const std::vector<torch::Tensor*>& outputs) {
  const auto begun = std::make_shared<bool>(false);
  for (torch::Tensor* output : outputs) {
    if (!output->defined() || output->grad_fn() == nullptr) continue;
    output->register_hook([begun](const torch::Tensor&) {
      if (std::exchange(*begun, true)) return;
      torch::autograd::Engine::get_default_engine().queue_callback([] {
        busy_time().wait_begins(Clock::now());
        torch::autograd::Engine::get_default_engine().queue_callback(
            [] { busy_time().wait_ends(Clock::now()); });
      });
    });
  }
}

}  // namespace

struct DataParallelEngine::State {
  State(std::shared_ptr<torch::nn::Module> wrapped, const Job& in,
        const DistributedDataParallelOptions& chosen)
      : module(std::move(wrapped)), job(in), options(chosen), parameters(parameters_to_reduce(*module)) {}

  // The Reducer keeps the group; the store behind it lives as long as the job.
  std::shared_ptr<torch::nn::Module> module;
  Job job;
  DistributedDataParallelOptions options;
  Parameters parameters;
  std::shared_ptr<c10d::Reducer> reducer;
  std::shared_ptr<c10d::Logger>
      logger;                     // the Reducer tells it of unused parameters, and takes it to be there
  bool sync = true;               // backward reduces
  bool sync_buffers_next = true;  // the forward before this one was followed by a reduction
  // A static graph's first backward: shared with the graph, which may outlive this object.
  std::shared_ptr<bool> delayed_all_reduce = std::make_shared<bool>(false);
  Indices pinned;  // the order that set_bucket_order gave; empty: the Reducer's own

  // A GPU works behind the program's back: when the program waits says nothing about it.
  bool on_cpu() const { return parameters.tensors.front().is_cpu(); }
  void sync_module_states();
  void make_reducer_for(std::int64_t cap_bytes, std::int64_t first_cap_bytes);
  void rebuild_buckets();
  void broadcast_buffers();
  Indices current_order() const;
  Indices indices_of(const BucketOrder& order) const;
};

void DataParallelEngine::State::sync_module_states() {
  c10d::verify_params_across_processes(job.process_group(), parameters.tensors, {});
  std::vector<torch::Tensor> states;
  append_detached(module->parameters(), states);
  if (options.broadcast_buffers) append_detached(module->buffers(), states);
  c10d::broadcast_coalesced(job.process_group(), states, kBroadcastBucketBytes, 0);
}

void DataParallelEngine::State::make_reducer_for(std::int64_t cap_bytes, std::int64_t first_cap_bytes) {
  std::vector<std::size_t> limits{kNoLimit};  // one bucket at first: the order of arrival is not known yet
  if (options.find_unused_parameters && !options.static_graph) {
    limits = {static_cast<std::size_t>(cap_bytes)};
    if (!options.bucket_cap_mb) limits.insert(limits.begin(), static_cast<std::size_t>(first_cap_bytes));
  }
  Indices buckets =
      std::get<0>(c10d::compute_bucket_assignment_by_size(parameters.tensors, limits, parameters.sparse));
  std::ranges::reverse(buckets);  // gradients come roughly in the reverse order of definition
  std::unordered_map<std::size_t, std::string> names;
  for (std::size_t i = 0; i < parameters.names.size(); ++i) names.emplace(i, parameters.names[i]);
  reducer = make_reducer<c10d::Reducer>(parameters.tensors, std::move(buckets), job.process_group(),
                                        parameters.sparse, cap_bytes, options.find_unused_parameters,
                                        options.gradient_as_bucket_view, std::move(names), first_cap_bytes);
  logger = std::make_shared<c10d::Logger>(reducer);
  reducer->set_logger(logger);
  if (options.static_graph) reducer->set_static_graph();
}

void DataParallelEngine::State::rebuild_buckets() {
  // The Reducer rebuilds once and cannot be told not to; a given order is put back after that.
  if (reducer->rebuild_buckets() && !pinned.empty() && current_order() != pinned)
    reducer->initialize_buckets(pinned);
}

void DataParallelEngine::State::broadcast_buffers() {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> buffers;
  append_detached(module->buffers(), buffers);
  if (!buffers.empty()) c10d::broadcast_coalesced(job.process_group(), buffers, kBroadcastBucketBytes, 0);
}

Indices DataParallelEngine::State::current_order() const {
  std::unordered_map<const c10::TensorImpl*, std::size_t> index;
  for (std::size_t i = 0; i < parameters.tensors.size(); ++i)
    index.emplace(parameters.tensors[i].unsafeGetTensorImpl(), i);
  Indices order;
  for (const auto& bucket : reducer->get_grad_buckets(/*return_zero_tensors=*/false)) {
    order.emplace_back();
    for (const auto& parameter : bucket.getParameters())
      order.back().push_back(index.at(parameter.unsafeGetTensorImpl()));
  }
  return order;
}

Indices DataParallelEngine::State::indices_of(const BucketOrder& order) const {
  std::unordered_map<std::string, std::size_t> unused;
  for (std::size_t i = 0; i < parameters.names.size(); ++i) unused.emplace(parameters.names[i], i);
  Indices indices;
  for (const auto& bucket : order) {
    if (bucket.empty()) throw std::invalid_argument("bucket order: a bucket is empty");
    indices.emplace_back();
    for (const auto& name : bucket) {
      const auto found = unused.extract(name);
      if (found.empty())
        throw std::invalid_argument(
            fmt::format("bucket order: '{}' is named twice, or is not a parameter of this model that needs "
                        "a gradient",
                        name));
      indices.back().push_back(found.mapped());
    }
  }
  if (!unused.empty())
    throw std::invalid_argument(
        fmt::format("bucket order: '{}' of this model is missing", unused.begin()->first));
  return indices;
}

DataParallelEngine::DataParallelEngine(std::shared_ptr<torch::nn::Module> module, const Job& job,
                                       const DistributedDataParallelOptions& options)
    : state_(std::make_unique<State>(std::move(module), job, options)) {
  const double cap_mb = options.bucket_cap_mb.value_or(25);
  if (!(cap_mb > 0))
    throw std::invalid_argument(
        fmt::format("DistributedDataParallel: bucket_cap_mb is {}; it must be above 0", cap_mb));
  const auto cap_bytes = static_cast<std::int64_t>(cap_mb * 1024 * 1024);
  state_->sync_module_states();
  state_->make_reducer_for(cap_bytes, options.bucket_cap_mb ? cap_bytes : c10d::kDefaultFirstBucketBytes);
}

DataParallelEngine::~DataParallelEngine() = default;

void DataParallelEngine::before_forward() {
  if (torch::GradMode::is_enabled() && state_->sync) state_->reducer->prepare_for_forward();
  // Before the forward pass, when the least memory is in use.
  if (torch::GradMode::is_enabled()) state_->rebuild_buckets();
  if (!state_->options.broadcast_buffers || !state_->sync_buffers_next) return;
  if (state_->on_cpu()) busy_time().wait_begins(Clock::now());  // for rank 0
  state_->broadcast_buffers();
  if (state_->on_cpu()) busy_time().wait_ends(Clock::now());
}

void DataParallelEngine::after_forward(const std::vector<torch::Tensor*>& outputs) {
  State& state = *state_;
  const bool find_unused = state.options.find_unused_parameters && !state.options.static_graph;
  state.sync_buffers_next = torch::GradMode::is_enabled() && state.sync;
  if (state.sync_buffers_next) {
    std::vector<torch::Tensor> tensors;
    if (find_unused) {
      for (const torch::Tensor* output : outputs) tensors.push_back(*output);
      if (tensors.empty())
        throw std::invalid_argument(
            "DistributedDataParallel: find_unused_parameters needs tensors, or containers of tensors, as "
            "outputs");
    }
    state.reducer->prepare_for_backward(tensors);
  }
  if (find_unused) {
    pass_through_sink(outputs, [] {});
  } else if (state.options.static_graph && !*state.delayed_all_reduce) {
    // The first backward of a static graph counts the uses of each parameter, and reduces all at its end.
    pass_through_sink(outputs, [reducer = std::weak_ptr(state.reducer), delayed = state.delayed_all_reduce] {
      if (std::exchange(*delayed, true)) return;
      torch::autograd::Engine::get_default_engine().queue_callback([reducer] {
        if (auto alive = reducer.lock()) alive->delay_all_reduce();
      });
    });
  }
  if (state.sync_buffers_next && state.on_cpu()) time_the_wait(outputs);
}

void DataParallelEngine::zero_grad(bool set_to_none) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : state_->module->parameters()) {
    if (!parameter.grad().defined()) continue;
    // Never detach_(), which throws on a view of a bucket, nor detach(), which takes the gradient out of its
    // bucket.
    if (set_to_none)
      parameter.mutable_grad().reset();
    else
      parameter.mutable_grad().zero_();
  }
}

bool DataParallelEngine::set_sync(bool sync) {
  return std::exchange(state_->sync, sync);
}

BucketOrder DataParallelEngine::bucket_order() {
  State& state = *state_;
  // The order that the next forward pass would settle on is settled now: a run that goes on from here and one
  // that resumes from here then agree from the next step on.
  state.rebuild_buckets();
  BucketOrder order;
  if (state.pinned.empty() && state.reducer->should_rebuild_buckets()) return order;
  for (const auto& bucket : state.pinned.empty() ? state.current_order() : state.pinned) {
    order.emplace_back();
    for (const std::size_t index : bucket) order.back().push_back(state.parameters.names[index]);
  }
  return order;
}

void DataParallelEngine::check_bucket_order(const BucketOrder& order) const {
  if (!order.empty()) state_->indices_of(order);
}

bool DataParallelEngine::broadcasts_buffers() const {
  return state_->options.broadcast_buffers;
}

void DataParallelEngine::set_bucket_order(const BucketOrder& order) {
  if (order.empty()) return;
  state_->pinned = state_->indices_of(order);
  state_->reducer->initialize_buckets(state_->pinned);
}

}  // namespace muster
