// This code uses the Reducer in the same way as torch/nn/parallel/distributed.py of the same torch release.

#include <algorithm>
#include <atomic>
#include <exception>
#include <fmt/format.h>
#include <muster/comm/collectives.h>
#include <muster/parallel/distributed_data_parallel.h>
#include <muster/rank/section.h>
#include <optional>
#include <stdexcept>
#include <torch/csrc/autograd/engine.h>
#include <unordered_map>

#include "common/base/clock.h"
#include "runtime/comm/formation.h"
#include "runtime/comm/job_state.h"
#include "runtime/comm/nccl/failure.h"
#include "runtime/parallel/attendance.h"
#include "runtime/parallel/comm_hook.h"
#include "runtime/parallel/output_hooks.h"
#include "runtime/parallel/reduction.h"
#include "runtime/parallel/verification.h"
#include "runtime/rank/step_time.h"
#include "runtime/rank/trace.h"
#include "runtime/rank/uncaught.h"

namespace muster::detail {
namespace {

constexpr std::size_t kBroadcastBucketBytes = 250 * 1024 * 1024;

// Inside join(), a rank whose loop has ended must take part in the collectives of the ranks that still train.
// So before each forward pass, the training ranks tell which collectives follow. To do so, all ranks compute
// the maximum of these four values over the ranks. Ranks whose loops have ended send kNothing.
enum Say : std::int64_t { kBuildsGraph, kReduces, kEndedEarly, kHasBuffers, kSayCount };
constexpr std::int64_t kNothing = -1;

// The returned function can be called even when the group or the whole job has been destroyed.
std::function<std::string()> who_is_gone_of(const Group& group) {
  return [job = state_of(group).job, ranks = group.ranks(), name = group.description()] {
    const auto state = job.lock();
    const std::string gone = state ? who_is_gone(*state, ranks) : "";
    return gone.empty() ? gone : fmt::format("{}, of the {}", gone, name);
  };
}

}  // namespace

struct DataParallelEngine::State {
  State(std::shared_ptr<torch::nn::Module> wrapped, const Group& in,
        const DistributedDataParallelOptions& chosen)
      : module(std::move(wrapped)), group(in), options(chosen) {}

  // The Reducer keeps the process group alive; the store behind it lives as long as the job.
  std::shared_ptr<torch::nn::Module> module;
  Group group;
  DistributedDataParallelOptions options;
  ReducedParameters parameters;
  std::shared_ptr<Reduction> reduction;
  std::shared_ptr<Attendance> attendance;
  TimePoint forward_began;        // set only if there is a trace
  bool sync = true;               // the backward pass reduces
  bool sync_buffers_next = true;  // a reduction followed the last forward pass
  std::optional<JoinOptions> join;
  // Becomes true in a static graph's first backward pass. The graph shares it, because the graph can
  // outlive this object.
  std::shared_ptr<bool> delayed_all_reduce = std::make_shared<bool>(false);

  // Waiting is measured only on the CPU. On a GPU the program does not wait, because the GPU computes while
  // the program goes on.
  bool on_cpu() const { return parameters.tensors.front().is_cpu(); }
  bool broadcasts_buffers_now() const { return options.broadcast_buffers && sync_buffers_next; }
  void broadcast_states(std::int64_t source);
  void broadcast_buffers(std::int64_t source);
  void begin_pass(bool reduces);
  std::int64_t tell_joined_ranks();
  bool shadow_step();
  void broadcast_model_of_last(bool last);
  at::Tensor on_any_rank(const std::vector<std::uint8_t>& here) const;
  Reduction::Order indices_of(const BucketOrder& order) const;
};

void DataParallelEngine::State::broadcast_states(std::int64_t source) {
  const Traced in_trace(TraceTrack::kCommunication, "broadcast of parameters");
  std::vector<torch::Tensor> states;
  append_detached(module->parameters(), states);
  if (options.broadcast_buffers) append_detached(module->buffers(), states);
  c10d::broadcast_coalesced(group.process_group(), states, kBroadcastBucketBytes, static_cast<int>(source));
}

void DataParallelEngine::State::broadcast_buffers(std::int64_t source) {
  const Traced in_trace(TraceTrack::kCommunication, "broadcast of buffers");
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> buffers;
  append_detached(module->buffers(), buffers);
  if (!buffers.empty())
    c10d::broadcast_coalesced(group.process_group(), buffers, kBroadcastBucketBytes,
                              static_cast<int>(source));
}

// Notes a training pass that begins, and counts its reduction. From now on, this model's attendance explains
// exceptions, even after this State is destroyed, until another model begins a pass.
void DataParallelEngine::State::begin_pass(bool reduces) {
  static std::atomic<const Attendance*> last = nullptr;
  if (last.exchange(attendance.get()) != attendance.get())
    explain_exceptions_with([here = attendance](const std::string& text) { return here->explain(text); });
  if (!reduces)
    return attendance->accumulates(reduction->will_rebuild() ||
                                   (broadcasts_buffers_now() && !module->buffers().empty()));
  attendance->reduces();
  step_time().meets(state_of(group).key);
}

// In a join, a training rank calls this before each forward pass. It tells the ranks whose loops have ended
// which collectives follow. All ranks copy the buffers of one rank: the highest rank that still trains, as in
// PyTorch. Returns the place of that rank in the group.
std::int64_t DataParallelEngine::State::tell_joined_ranks() {
  std::vector<torch::Tensor> active{torch::ones({1})};
  auto counted = group.process_group()->allreduce(active);
  if (!join->divide_by_initial_world_size) reduction->divide_by(std::move(counted));
  const bool builds_graph = torch::GradMode::is_enabled();
  const auto said =
      torch::tensor({static_cast<std::int64_t>(builds_graph), static_cast<std::int64_t>(builds_graph && sync),
                     kNothing, static_cast<std::int64_t>(group.rank())});
  all_reduce(group, said, ReduceOp::kMax);
  const auto ended = said[kEndedEarly].item<std::int64_t>();
  if (ended != kNothing)
    throw std::runtime_error(fmt::format("join: rank {} has no more inputs (throw_on_early_termination)",
                                         group.ranks()[static_cast<std::size_t>(ended)]));
  return said[kHasBuffers].item<std::int64_t>();
}

// Takes part in one step of the ranks that still train: calls their collectives, with gradients of zero.
// Returns false if no rank trains any more.
bool DataParallelEngine::State::shadow_step() {
  std::vector<torch::Tensor> active{torch::zeros({1})};
  group.process_group()->allreduce(active)->wait();
  if (active[0].item<float>() == 0) return false;
  auto said = torch::full({kSayCount}, kNothing);
  if (join->throw_on_early_termination) said[kEndedEarly] = group.rank();
  all_reduce(group, said, ReduceOp::kMax);
  if (join->throw_on_early_termination)
    throw std::runtime_error(
        fmt::format("join: this rank ({}) has no more inputs, but others have (throw_on_early_termination)",
                    group.job().rank()));
  if (options.static_graph && !*delayed_all_reduce)
    throw std::runtime_error(
        "join: a rank ended without a backward pass; with static_graph each rank needs at least one");
  if (said[kBuildsGraph].item<std::int64_t>() == 1) reduction->rebuild_buckets();
  if (broadcasts_buffers_now()) broadcast_buffers(said[kHasBuffers].item<std::int64_t>());
  sync_buffers_next = said[kReduces].item<std::int64_t>() == 1;
  if (!sync_buffers_next) return true;
  begin_pass(/*reduces=*/true);
  reduction->shadow_backward();
  return true;
}

void DataParallelEngine::State::broadcast_model_of_last(bool last) {
  const auto source = torch::full({1}, last ? group.rank() : kNothing);
  all_reduce(group, source, ReduceOp::kMax);
  broadcast_states(source.item<std::int64_t>());
}

// For each flag, returns true if it is set on any rank. The result is a bool tensor on the CPU.
at::Tensor DataParallelEngine::State::on_any_rank(const std::vector<std::uint8_t>& here) const {
  const at::Tensor all = torch::tensor(here).to(group.device());
  if (group.size() > 1) all_reduce(group, all, ReduceOp::kMax);
  return all.to(at::kCPU, at::kBool);
}

Reduction::Order DataParallelEngine::State::indices_of(const BucketOrder& order) const {
  std::unordered_map<std::string, std::size_t> unused;
  for (std::size_t i = 0; i < parameters.names.size(); ++i) unused.emplace(parameters.names[i], i);
  Reduction::Order indices;
  for (const auto& bucket : order) {
    if (bucket.empty()) throw std::invalid_argument("bucket order: a bucket is empty");
    indices.emplace_back();
    for (const auto& name : bucket) {
      const auto found = unused.extract(name);
      if (found.empty())
        throw std::invalid_argument(
            fmt::format("bucket order: '{}' is named twice, "
                        "or is not a parameter of this model that needs a gradient",
                        name));
      indices.back().push_back(found.mapped());
    }
  }
  if (!unused.empty())
    throw std::invalid_argument(
        fmt::format("bucket order: '{}' of this model is missing", unused.begin()->first));
  return indices;
}

DataParallelEngine::DataParallelEngine(std::shared_ptr<torch::nn::Module> module, const Group& group,
                                       const DistributedDataParallelOptions& options)
    : state_(std::make_unique<State>(std::move(module), group, options)) {
  // This is a collective, so it comes before all other checks. If another check failed first on one rank, the
  // other ranks would wait for that rank here.
  auto description = describe_model(*state_->module, options);
  description.emplace_back("the job's device", c10::DeviceTypeName(group.device().type(), true));
  require_equal_on_all_ranks(group, "DistributedDataParallel: the model", description);
  if (options.bucket_cap_mb && !(*options.bucket_cap_mb > 0))
    throw std::invalid_argument(fmt::format(
        "DistributedDataParallel: bucket_cap_mb is {}; it must be above 0", *options.bucket_cap_mb));
  state_->parameters = parameters_to_reduce(*state_->module);
  require_on_device_of(state_->parameters, group.device());
  state_->broadcast_states(0);
  state_->reduction = std::make_shared<Reduction>(state_->parameters, group.process_group(), options);
  if (auto hook = make_comm_hook(options.comm_hook, group.process_group()))
    state_->reduction->register_comm_hook(std::move(hook));
  state_->attendance = std::make_shared<Attendance>(group.job().store(), group.job().rank(),
                                                    state_of(group).key, who_is_gone_of(group));
  if (state_->on_cpu() && group.size() > 1) state_->attendance->watch();
}

DataParallelEngine::~DataParallelEngine() {
  state_->attendance->stop_watching();
  if (std::uncaught_exceptions() == 0) state_->attendance->ends();
}

void DataParallelEngine::before_forward() {
  State& state = *state_;
  if (trace_file() != nullptr) state.forward_began = Clock::now();
  if (const std::string why = state_of(state.group).nccl_failure(); !why.empty())
    throw std::runtime_error("DistributedDataParallel: " + why);
  if (torch::GradMode::is_enabled() && state.group.size() > 1) require_frozen(state.parameters);
  if (torch::GradMode::is_enabled()) {
    state.begin_pass(state.sync);
    if (state.sync) state.reduction->prepare_forward();
  }
  std::optional<InStepPart> waiting;
  if (state.on_cpu() && (state.join || state.broadcasts_buffers_now() || state.reduction->will_rebuild()))
    waiting.emplace(kCommunicatePart);
  const std::int64_t source = state.join ? state.tell_joined_ranks() : 0;
  // Before the forward pass, less memory is in use than at any other time of a step. So the buckets are
  // rebuilt here.
  if (torch::GradMode::is_enabled()) state.reduction->rebuild_buckets();
  if (state.broadcasts_buffers_now()) state.broadcast_buffers(source);
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
            "DistributedDataParallel: find_unused_parameters needs outputs that are tensors or containers of tensors");
    }
    state.reduction->prepare_backward(tensors);
  }
  if (find_unused) {
    pass_through_sink(outputs, [] {});
  } else if (state.options.static_graph && !*state.delayed_all_reduce) {
    // The first backward pass of a static graph counts the uses of each parameter, and reduces all gradients
    // at its end.
    pass_through_sink(outputs,
                      [reduction = std::weak_ptr(state.reduction), delayed = state.delayed_all_reduce] {
                        if (std::exchange(*delayed, true)) return;
                        torch::autograd::Engine::get_default_engine().queue_callback([reduction] {
                          if (auto alive = reduction.lock()) alive->reduce_all();
                        });
                      });
  }
  if (state.sync_buffers_next && state.on_cpu()) time_backward(outputs);
  if (TraceFile* const trace = trace_file())
    trace->add(TraceTrack::kStep, "forward", state.forward_began, Clock::now());
}

void DataParallelEngine::broadcast_buffers() {
  State& state = *state_;
  state.begin_pass(/*reduces=*/false);
  if (!state.broadcasts_buffers_now()) return;
  std::optional<InStepPart> waiting;
  if (state.on_cpu()) waiting.emplace(kCommunicatePart);
  state.broadcast_buffers(0);
}

// The Reducer can only reduce gradients that arrive in a backward pass. So this function runs a backward pass
// that adds zero to each gradient. If no rank has a gradient of a parameter, the parameter has none
// afterwards.
void DataParallelEngine::reduce_grads() {
  State& state = *state_;
  if (state.join || state.options.static_graph ||
      std::ranges::find(state.parameters.sparse, true) != state.parameters.sparse.end())
    throw std::logic_error(
        "reduce_grads: not supported in join(), with static_graph, or for sparse gradients");
  state.begin_pass(/*reduces=*/true);
  state.sync_buffers_next = true;
  const bool finds_unused = state.options.find_unused_parameters;
  const auto count = static_cast<std::int64_t>(state.parameters.tensors.size());
  std::vector<std::uint8_t> here;  // 1 for each used parameter; then 1 for each frozen one
  for (const at::Tensor& each : state.parameters.tensors)
    here.push_back(each.requires_grad() && each.grad().defined() ? 1 : 0);
  for (const at::Tensor& each : state.parameters.tensors) here.push_back(each.requires_grad() ? 0 : 1);
  const at::Tensor all = state.on_any_rank(here);
  const at::Tensor used = all.narrow(0, 0, count), frozen = all.narrow(0, count, count);
  if (!used.any().item<bool>()) return;
  // If one rank cannot reduce, all ranks throw. Otherwise the others would wait for it.
  const bool some_frozen = frozen.any().item<bool>();
  if (some_frozen && !finds_unused)
    throw std::logic_error(fmt::format(
        "reduce_grads: '{}' was frozen after the model was made; that needs find_unused_parameters",
        state.parameters.names[static_cast<std::size_t>(frozen.nonzero()[0].item<std::int64_t>())]));
  const at::AutoGradMode enable_grad(true);
  at::Tensor nothing;
  for (std::size_t i = 0; i < state.parameters.tensors.size(); ++i) {
    const at::Tensor& each = state.parameters.tensors[i];
    // With find_unused_parameters, the Reducer finds unused parameters itself, so this loop leaves them out.
    if (!each.requires_grad() || (finds_unused && !used[static_cast<std::int64_t>(i)].item<bool>())) continue;
    const at::Tensor row = (each.dim() == 0 ? each.unsqueeze(0) : each).narrow(0, 0, 0).sum();
    nothing = nothing.defined() ? nothing + row : row;
  }
  if (some_frozen && state.on_any_rank({nothing.defined() ? std::uint8_t{0} : std::uint8_t{1}}).item<bool>())
    throw std::logic_error("reduce_grads: one rank has frozen all parameters that the others have used");
  state.reduction->prepare_forward();
  state.reduction->rebuild_buckets();
  std::vector<at::Tensor> outputs;
  if (finds_unused) outputs.push_back(nothing);
  state.reduction->prepare_backward(outputs);
  nothing.backward();
  for (std::size_t i = 0; i < state.parameters.tensors.size(); ++i)
    if (!used[static_cast<std::int64_t>(i)].item<bool>()) state.parameters.tensors[i].mutable_grad().reset();
}

// Returns the sum of these sizes in bytes:
// - the buckets, if they will be rebuilt
// - gradients that this rank does not have, because other ranks can have them
// - a copy of the largest gradient, for an addition
std::int64_t DataParallelEngine::reduction_bytes() const {
  std::size_t all = 0, missing = 0, largest = 0;
  for (const at::Tensor& each : state_->parameters.tensors) {
    all += each.nbytes();
    if (each.requires_grad() && !each.grad().defined()) missing += each.nbytes();
    largest = std::max(largest, each.nbytes());
  }
  return static_cast<std::int64_t>((state_->reduction->settled() ? 0 : all) + missing + largest);
}

void DataParallelEngine::zero_grad(bool set_to_none) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : state_->module->parameters()) {
    if (!parameter.grad().defined()) continue;
    // detach_() would throw on a view of a bucket. detach() would take the gradient out of its bucket. So
    // this code calls neither of the two.
    if (set_to_none)
      parameter.mutable_grad().reset();
    else
      parameter.mutable_grad().zero_();
  }
}

bool DataParallelEngine::set_sync(bool sync) {
  return std::exchange(state_->sync, sync);
}

void DataParallelEngine::register_comm_hook(std::unique_ptr<c10d::CommHookInterface> hook) {
  state_->reduction->register_comm_hook(std::move(hook));
}

void DataParallelEngine::join(const std::function<void()>& body, const JoinOptions& options) {
  State& state = *state_;
  if (state.join) throw std::logic_error("join: called inside another join of the same model");
  // Ends the join, even after an exception.
  const auto leave = [](State* left) {
    left->join.reset();
    left->attendance->joins(false);
    left->reduction->divide_by(nullptr);
  };
  const std::unique_ptr<State, decltype(leave)> scope(&state, leave);
  state.join = options;
  state.attendance->joins(true);
  body();
  bool last = true;
  for (;; last = false) {
    const auto in = section("join");  // measures the time of the other ranks' steps
    if (!state.shadow_step()) break;
  }
  state.broadcast_model_of_last(last);
}

BucketOrder DataParallelEngine::bucket_order() {
  State& state = *state_;
  // The order is settled here instead of in the next forward pass. So a run that continues and a run that
  // resumes from this checkpoint use the same order from the next step on.
  state.reduction->rebuild_buckets();
  BucketOrder order;
  if (!state.reduction->settled()) return order;
  for (const auto& bucket : state.reduction->order()) {
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
  state_->reduction->pin(state_->indices_of(order));
}

}  // namespace muster::detail
