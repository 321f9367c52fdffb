#include <algorithm>
#include <array>
#include <bit>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <map>
#include <muster/comm/collectives.h>
#include <muster/comm/job.h>
#include <muster/pipeline/pipeline_schedule.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <torch/torch.h>

#include "runtime/data/loader/same_samples.h"
#include "runtime/pipeline/agreement.h"
#include "runtime/pipeline/exchange.h"
#include "runtime/pipeline/exchange_plan.h"
#include "runtime/pipeline/layer_random.h"
#include "runtime/pipeline/pipeline_times.h"
#include "runtime/pipeline/replica_sums.h"
#include "runtime/pipeline/stage_runner.h"
#include "runtime/pipeline/tied_weights.h"
#include "runtime/rank/activity.h"
#include "runtime/rank/step_time.h"
#include "runtime/train/clip_scale.h"

namespace muster {

namespace {

using Json = nlohmann::json;

constexpr int kKindsTag = 0x6d6b;
constexpr std::uint64_t kFirstLook = 8;  // in steps
constexpr double kNoLoss = std::numeric_limits<double>::quiet_NaN();

Json json_of(const std::vector<TensorKind>& kinds) {
  Json all = Json::array();
  for (const TensorKind& each : kinds)
    all.push_back({each.shape, static_cast<int>(each.type), each.needs_grad});
  return all;
}
std::vector<TensorKind> kinds_from(const Json& json) {
  std::vector<TensorKind> kinds;
  for (const Json& each : json)
    kinds.push_back({each.at(0).get<std::vector<std::int64_t>>(),
                     static_cast<at::ScalarType>(each.at(1).get<int>()), each.at(2).get<bool>()});
  return kinds;
}

const char* name_of(Op op) {
  switch (op) {
    case Op::kForward: return "forward";
    case Op::kBackwardInput: return "input gradient";
    case Op::kBackwardWeight: return "weight gradient";
    default: return "backward";
  }
}

std::string share_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? share_in_hand(tensor.storage().unsafeGetStorageImpl()) : "";
}

// Sets this rank's activity text, which reports of a hang show.
class At {
 public:
  explicit At(const Instruction& instruction) {
    set_activity(fmt::format("stage {}: {} of microbatch {}", instruction.stage, name_of(instruction.op),
                             instruction.microbatch));
  }
  explicit At(std::string what) { set_activity(std::move(what)); }
  At(const At&) = delete;
  At& operator=(const At&) = delete;
  ~At() { set_activity(""); }
};

}  // namespace

struct PipelineSchedule::State {
  State(const std::string& name, std::vector<PipelineStage> of_rank, int n_microbatches, PipelineLoss of_loss,
        PipelineOptions chosen);

  StageRunner::Pass begin_pass(bool trains) const;
  // The inputs and the target of the whole batch. A tensor that this rank's stages do not use is missing.
  // `size` is the number of samples per microbatch.
  struct Microbatches {
    std::vector<at::Tensor> inputs;
    at::Tensor target;
    std::int64_t size = 0;
    std::vector<at::Tensor> inputs_of(int microbatch) const;
    std::vector<TensorKind> input_kinds() const;
    at::Tensor target_of(int microbatch) const;
  };
  Microbatches cut(const PipelineBatch& batch, bool needs_target) const;
  void find_kinds(const Microbatches& microbatches, const StageRunner::Pass& pass);
  void require_known_kinds(const Microbatches& microbatches) const;
  // Runs the plan's instructions. In an evaluation, returns the last stage's outputs of each microbatch.
  std::vector<std::vector<at::Tensor>> run(const ExchangePlan& plan, const Microbatches& microbatches,
                                           const StageRunner::Pass& pass);
  void run_forward(StageRunner& runner, const Instruction& instruction, const Microbatches& microbatches,
                   const StageRunner::Pass& pass, Exchange& exchange,
                   std::vector<std::vector<at::Tensor>>& outputs);
  void run_backward(StageRunner& runner, const Instruction& instruction, const StageRunner::Pass& pass,
                    Exchange& exchange);
  void list_weights(const std::vector<std::string>& names);
  at::Tensor norm_of_gradients(double norm_type) const;
  void keep_loss();
  void tell_what_it_waited_for(TimePoint began);
  std::vector<at::Tensor> take(const Instruction& compute, Exchange& exchange) const;
  StageRunner* last_runner();
  int rank_of_stage(int stage) const {
    return group.ranks()[static_cast<std::size_t>(ranks[static_cast<std::size_t>(stage)])];
  }

  std::vector<PipelineStage> stages;
  PipelineLoss loss_of;
  PipelineOptions options;
  Group group;
  int microbatch_count;
  Schedule schedule;
  std::vector<int> ranks;  // for each stage: its rank in the schedule
  ExchangePlan training;
  ExchangePlan evaluation;
  std::map<int, StageKinds> kinds;  // of each stage of this rank; StageRunner::find_kinds() fills them
  std::vector<StageRunner> runners;
  std::vector<ReplicaSums> sums;  // for each stage, if there are replicas
  std::vector<TiedWeight> tied;
  struct Weight {
    at::Tensor parameter;
    std::optional<std::size_t> place;  // among the model's parameters; nothing: another copy counts
  };
  std::vector<Weight> weights;  // this rank's, each once
  std::size_t weights_of_model = 0;
  at::ScalarType type_of_norm = at::kFloat;
  bool kinds_are_of_training = false;
  bool tied_have_sums = false;  // each copy's gradient is already the sum over all copies
  bool sync = true;
  std::int64_t steps = 0;
  PipelineTimes times;
  std::uint64_t steps_here = 0;  // since this process began
  PipelineProfile looked_at;     // the profile of the newest step that was profiled
  at::Tensor last_loss;
};

PipelineSchedule::State::State(const std::string& name, std::vector<PipelineStage> of_rank,
                               int n_microbatches, PipelineLoss of_loss, PipelineOptions chosen)
    : stages(std::move(of_rank)),
      loss_of(std::move(of_loss)),
      options(std::move(chosen)),
      group(stages.empty() ? throw std::invalid_argument("pipeline: this rank has no stage")
                           : stages.front().group()),
      microbatch_count(n_microbatches) {
  PipelineAgreement agreed = agree_about_pipeline(name, stages, n_microbatches, options);
  schedule = std::move(agreed.schedule);
  tied = std::move(agreed.tied);
  type_of_norm = agreed.norm_type;
  list_weights(agreed.parameters);
  ranks = ranks_of_stages(schedule);
  training = make_exchange_plan(schedule, group.rank(), /*forward_only=*/false);
  evaluation = make_exchange_plan(schedule, group.rank(), /*forward_only=*/true);
  for (const PipelineStage& stage : stages) {
    runners.emplace_back(stage, loss_of, kinds[stage.stage_index()], options.recompute);
    if (!options.replicas) continue;
    const ReplicaSums& of_stage = sums.emplace_back(*options.replicas, stage.parameters());
    of_stage.broadcast(stage.parameters());
    of_stage.broadcast(stage.module()->buffers());
  }
  share_values(group, tied);
  std::vector<int> indices;
  for (const PipelineStage& stage : stages) indices.push_back(stage.stage_index());
  set_model_part(fmt::format("stage{} {}", stages.size() == 1 ? "" : "s", fmt::join(indices, ", ")));
}

void PipelineSchedule::State::list_weights(const std::vector<std::string>& names) {
  weights_of_model = names.size();
  std::set<const at::TensorImpl*> copies;
  for (const at::Tensor& each : other_copies(tied)) copies.insert(each.unsafeGetTensorImpl());
  std::set<const at::TensorImpl*> known;
  for (const PipelineStage& stage : stages) {
    for (const auto& each : stage.module()->named_parameters()) {
      const at::TensorImpl* const weight = each.value().unsafeGetTensorImpl();
      if (!known.insert(weight).second) continue;
      std::optional<std::size_t> place;
      if (!copies.contains(weight))
        place = static_cast<std::size_t>(std::ranges::lower_bound(names, each.key()) - names.begin());
      weights.push_back({each.value(), place});
    }
  }
}

// Every rank gets the norms of all parameters and combines them in the same order. So the result does not
// depend on which stage has which parameter. The all-reduce is exact: for each parameter, one rank has the
// norm, and all others have 0.
at::Tensor PipelineSchedule::State::norm_of_gradients(double norm_type) const {
  if (!(norm_type > 0))
    refuse_pipeline(fmt::format("clip_grad_norm_: norm_type is {}; it must be above 0", norm_type));
  const at::Tensor none = at::zeros({}, at::device(group.device()).dtype(type_of_norm));
  if (weights_of_model == 0) return none;
  std::vector<at::Tensor> gradients;
  std::vector<std::size_t> places;
  for (const Weight& each : weights) {
    if (!each.place || !each.parameter.grad().defined()) continue;
    gradients.push_back(each.parameter.grad());
    places.push_back(*each.place);
  }
  const std::vector<at::Tensor> own = norms_of(gradients, norm_type);
  std::vector<at::Tensor> norms(weights_of_model, none);
  for (std::size_t i = 0; i < own.size(); ++i) norms[places[i]] = own[i];
  const at::Tensor all = at::stack(norms).to(at::kDouble);
  all_reduce(group, all);
  return at::linalg_vector_norm(all, norm_type).to(type_of_norm);
}

StageRunner* PipelineSchedule::State::last_runner() {
  const auto found =
      std::ranges::find_if(runners, [](const StageRunner& each) { return each.stage().is_last(); });
  return found == runners.end() ? nullptr : &*found;
}

StageRunner::Pass PipelineSchedule::State::begin_pass(bool trains) const {
  const auto replica = static_cast<std::uint64_t>(options.replicas ? options.replicas->rank() : 0);
  return {.seed = mix_seeds(mix_seeds(options.seed, replica), static_cast<std::uint64_t>(steps)),
          .trains = trains,
          .loss_scale = options.scale_grads ? 1.0 / microbatch_count : 1.0};
}

std::vector<at::Tensor> PipelineSchedule::State::Microbatches::inputs_of(int microbatch) const {
  std::vector<at::Tensor> part;
  for (const at::Tensor& each : inputs) part.push_back(each.narrow(0, microbatch * size, size));
  return part;
}

std::vector<TensorKind> PipelineSchedule::State::Microbatches::input_kinds() const {
  std::vector<TensorKind> kinds;
  for (const at::Tensor& each : inputs_of(0))
    kinds.push_back({each.sizes().vec(), each.scalar_type(), /*needs_grad=*/false});
  return kinds;
}

at::Tensor PipelineSchedule::State::Microbatches::target_of(int microbatch) const {
  return target.defined() ? target.narrow(0, microbatch * size, size) : target;
}

PipelineSchedule::State::Microbatches PipelineSchedule::State::cut(const PipelineBatch& batch,
                                                                   bool needs_target) const {
  Microbatches cut;
  const auto count = [&](const at::Tensor& tensor, const char* what) {
    if (!tensor.defined() || tensor.dim() == 0)
      refuse_pipeline(fmt::format("the {} of a batch has no first dimension", what));
    const std::int64_t size = tensor.size(0);
    if (size == 0 || size % microbatch_count != 0)
      refuse_pipeline(
          fmt::format("{} microbatches do not divide the {} of {} samples; "
                      "drop_last leaves out a smaller last batch",
                      microbatch_count, what, size));
    if (cut.size != 0 && cut.size != size / microbatch_count)
      refuse_pipeline(fmt::format("the {} has {} samples, the tensor before it {}", what, size,
                                  cut.size * microbatch_count));
    cut.size = size / microbatch_count;
  };
  if (stages.front().is_first()) {
    if (batch.inputs.empty()) refuse_pipeline("this rank has the first stage, but its batch has no inputs");
    cut.inputs = batch.inputs;
    for (const at::Tensor& each : cut.inputs) count(each, "input");
  }
  if (stages.back().is_last()) {
    cut.target = batch.target;
    if (needs_target && !loss_of) refuse_pipeline("this rank has the last stage, but no loss was given");
    if (needs_target && !cut.target.defined())
      refuse_pipeline("this rank has the last stage, but its batch has no target");
    if (cut.target.defined()) count(cut.target, "target");
  }
  return cut;
}

// Runs one microbatch of zeros through all stages. This finds the kinds (shapes and types) of their inputs
// and outputs. Each stage sends the next stage the kinds of its outputs. It also sends which share of the
// data the inputs come from (same_samples.h).
void PipelineSchedule::State::find_kinds(const Microbatches& microbatches, const StageRunner::Pass& pass) {
  std::string share = microbatches.inputs.empty() ? "" : share_of(microbatches.inputs.front());
  for (StageRunner& runner : runners) {
    const int stage = runner.stage().stage_index();
    std::vector<TensorKind> inputs;
    if (runner.stage().is_first()) {
      inputs = microbatches.input_kinds();
    } else if (rank_of_stage(stage - 1) == rank_of_stage(stage)) {
      inputs = kinds.at(stage - 1).outputs;
    } else {
      const auto given = recv_object<Json>(group, rank_of_stage(stage - 1), kKindsTag);
      inputs = kinds_from(given.at("outputs"));
      share = given.at("share");
    }
    if (runner.stage().is_last() && microbatches.target.defined())
      require_one_share(std::array{share, share_of(microbatches.target)});
    runner.find_kinds(inputs, pass);
    if (!runner.stage().is_last() && rank_of_stage(stage + 1) != rank_of_stage(stage))
      send_object(group, Json{{"outputs", json_of(kinds.at(stage).outputs)}, {"share", share}},
                  rank_of_stage(stage + 1), kKindsTag);
  }
}

void PipelineSchedule::State::require_known_kinds(const Microbatches& microbatches) const {
  if (!stages.front().is_first()) return;
  const std::vector<TensorKind> given = microbatches.input_kinds();
  const std::vector<TensorKind>& first = kinds.at(0).inputs;
  if (given != first)
    refuse_pipeline(fmt::format("a microbatch is {}, but the first one was {}: all must have the same shapes",
                                text_of(given), text_of(first)));
}

// Waits for the tensors that the instruction needs from another stage.
std::vector<at::Tensor> PipelineSchedule::State::take(const Instruction& compute, Exchange& exchange) const {
  const bool forward = compute.op == Op::kForward;
  const int from = compute.stage + (forward ? -1 : 1);
  const At at(fmt::format("stage {}: waits for the {} of microbatch {} from stage {} (rank {})",
                          compute.stage, forward ? "input" : "gradient", compute.microbatch, from,
                          rank_of_stage(from)));
  return exchange.take({forward ? Op::kForward : Op::kBackward, compute.stage, compute.microbatch});
}

void PipelineSchedule::State::run_forward(StageRunner& runner, const Instruction& instruction,
                                          const Microbatches& microbatches, const StageRunner::Pass& pass,
                                          Exchange& exchange, std::vector<std::vector<at::Tensor>>& outputs) {
  const int microbatch = instruction.microbatch;
  std::vector<at::Tensor> inputs =
      runner.stage().is_first() ? microbatches.inputs_of(microbatch) : take(instruction, exchange);
  const At at(instruction);
  const TimePoint begin = Clock::now();
  const at::Tensor target = runner.stage().is_last() ? microbatches.target_of(microbatch) : at::Tensor();
  std::vector<at::Tensor> given = runner.forward(microbatch, std::move(inputs), target, pass);
  if (pass.trains) times.add(instruction, begin);
  if (!runner.stage().is_last())
    exchange.give({Op::kForward, instruction.stage + 1, microbatch}, std::move(given));
  else if (!pass.trains)
    outputs[static_cast<std::size_t>(microbatch)] = std::move(given);
}

void PipelineSchedule::State::run_backward(StageRunner& runner, const Instruction& instruction,
                                           const StageRunner::Pass& pass, Exchange& exchange) {
  const int microbatch = instruction.microbatch;
  std::vector<at::Tensor> gradients;
  if (!runner.stage().is_last()) gradients = take(instruction, exchange);
  const At at(instruction);
  const TimePoint begin = Clock::now();
  std::vector<at::Tensor> given = runner.backward(microbatch, gradients, pass);
  const TimePoint input_at = Clock::now();
  if (!runner.stage().is_first())
    exchange.give({Op::kBackward, instruction.stage - 1, microbatch}, std::move(given));
  // Comes after give(), because the previous stage does not need the gradients of weights.
  if (instruction.op == Op::kBackward) runner.backward_weight(microbatch);
  times.add(instruction, begin, input_at);
}

std::vector<std::vector<at::Tensor>> PipelineSchedule::State::run(const ExchangePlan& plan,
                                                                  const Microbatches& microbatches,
                                                                  const StageRunner::Pass& pass) {
  std::vector<std::vector<at::Tensor>> outputs(static_cast<std::size_t>(microbatch_count));
  std::vector<int> left(runners.size(), microbatch_count);  // by stage: gradients still to come
  for (StageRunner& each : runners) each.forget();
  if (pass.trains) times.clear();
  Exchange exchange(group, plan, kinds);
  for (const Instruction& each : plan.computes) {
    const auto index = static_cast<std::size_t>(
        std::ranges::find(stages, each.stage, &PipelineStage::stage_index) - stages.begin());
    StageRunner& runner = runners[index];
    if (each.op == Op::kForward) {
      run_forward(runner, each, microbatches, pass, exchange, outputs);
      continue;
    }
    if (each.op == Op::kBackwardWeight) {
      const At at(each);
      const TimePoint begin = Clock::now();
      runner.backward_weight(each.microbatch);
      times.add(each, begin);
    } else {
      run_backward(runner, each, pass, exchange);
    }
    if (is_last_backward(each.op) && --left[index] == 0 && sync && options.replicas) sums[index].begin();
  }
  const At at("the end of a batch: waits until other ranks have taken its messages");
  exchange.finish();
  return outputs;
}

void PipelineSchedule::State::keep_loss() {
  StageRunner* last = last_runner();
  if (last == nullptr) return;
  const std::vector<at::Tensor> losses = last->take_losses();
  if (losses.empty()) return;
  const at::Tensor all = at::stack(losses);
  last_loss = options.scale_grads ? all.mean() : all.sum();
}

// Call this after a step. It takes the time that the step has waited for other ranks, and divides it into
// three parts of the step profile: "bubble", "imbalance" and "link". These parts have the same ratio as in
// the newest profiled step. All ranks together profile the 8th step, the 16th, the 32nd, and so on.
void PipelineSchedule::State::tell_what_it_waited_for(TimePoint began) {
  const Duration waited = times.waited(began, Clock::now());
  if (++steps_here >= kFirstLook && std::has_single_bit(steps_here))
    looked_at = times.profile(schedule, group);
  const double all = looked_at.bubble_ms + looked_at.imbalance_ms + looked_at.link_ms;
  if (all <= 0) return;
  const auto share = [&](double part) { return std::chrono::duration_cast<Duration>(waited * (part / all)); };
  step_time().divide(kCommunicatePart, {{"bubble", share(looked_at.bubble_ms)},
                                        {"imbalance", share(looked_at.imbalance_ms)},
                                        {"link", share(looked_at.link_ms)}});
}

PipelineSchedule::PipelineSchedule(const std::string& name, std::vector<PipelineStage> stages,
                                   int n_microbatches, PipelineLoss loss, PipelineOptions options)
    : state_(std::make_unique<State>(name, std::move(stages), n_microbatches, std::move(loss),
                                     std::move(options))) {}
PipelineSchedule::PipelineSchedule(PipelineSchedule&&) noexcept = default;
PipelineSchedule::~PipelineSchedule() = default;

at::Tensor PipelineSchedule::step(const PipelineBatch& batch) {
  State& state = *state_;
  const State::Microbatches microbatches = state.cut(batch, /*needs_target=*/true);
  const StageRunner::Pass pass = state.begin_pass(/*trains=*/true);
  if (state.kinds_are_of_training)
    state.require_known_kinds(microbatches);
  else
    state.find_kinds(microbatches, pass);
  state.kinds_are_of_training = true;
  if (std::exchange(state.tied_have_sums, false)) count_sums_once(state.tied);
  const TimePoint began = Clock::now();
  state.run(state.training, microbatches, pass);
  state.tell_what_it_waited_for(began);
  if (state.sync) {
    const At at("the end of a step: sums gradients");
    for (ReplicaSums& each : state.sums) each.finish();
    sum_gradients(state.group, state.tied);
    state.tied_have_sums = true;
  }
  ++state.steps;
  state.keep_loss();
  return state.last_loss;
}

void PipelineSchedule::set_requires_gradient_sync(bool sync) {
  state_->sync = sync;
}

std::vector<at::Tensor> PipelineSchedule::eval(const PipelineBatch& batch) {
  State& state = *state_;
  const torch::NoGradGuard no_grad;
  const State::Microbatches microbatches = state.cut(batch, /*needs_target=*/false);
  const StageRunner::Pass pass = state.begin_pass(/*trains=*/false);
  // This batch can have other kinds of tensors than the batches of the training. So the next training step
  // must find the kinds again.
  state.kinds_are_of_training = false;
  state.find_kinds(microbatches, pass);
  const auto of_microbatches = state.run(state.evaluation, microbatches, pass);
  state.keep_loss();
  std::vector<at::Tensor> outputs;
  for (std::size_t i = 0; i < of_microbatches.front().size(); ++i) {
    std::vector<at::Tensor> parts;
    for (const auto& each : of_microbatches) parts.push_back(each[i]);
    outputs.push_back(at::cat(parts));
  }
  return outputs;
}

double PipelineSchedule::loss() const {
  const State& state = *state_;
  at::Tensor value = at::full({1}, state.last_loss.defined() ? state.last_loss.item<double>() : kNoLoss,
                              at::device(state.group.device()).dtype(at::kDouble));
  if (state.stages.back().is_last() && state.options.replicas)
    all_reduce(*state.options.replicas, value, ReduceOp::kAvg);
  broadcast(state.group, value, state.rank_of_stage(state.schedule.stages - 1));
  return value.item<double>();
}

at::Tensor PipelineSchedule::clip_grad_norm_(double max_norm, double norm_type) {
  const torch::NoGradGuard no_grad;
  at::Tensor norm = state_->norm_of_gradients(norm_type);
  std::vector<at::Tensor> gradients;
  for (const State::Weight& each : state_->weights)
    if (each.parameter.grad().defined()) gradients.push_back(each.parameter.grad());
  scale_gradients(gradients, clip_scale(norm, max_norm));
  return norm;
}

PipelineProfile PipelineSchedule::profile() const {
  return state_->times.profile(state_->schedule, state_->group);
}

void PipelineSchedule::save(SavedState& to) const {
  to.shared_value("steps", write_number(state_->steps));
}

void PipelineSchedule::load(LoadedState& from) {
  // A checkpoint of the undivided model has no number of steps.
  if (from.has_value("steps")) state_->steps = from.number<std::int64_t>("steps");
}

const std::vector<PipelineStage>& PipelineSchedule::stages() const {
  return state_->stages;
}

std::vector<at::Tensor> PipelineSchedule::parameters() const {
  std::vector<at::Tensor> all;
  for (const PipelineStage& stage : state_->stages) {
    for (const at::Tensor& each : stage.parameters()) all.push_back(each);
  }
  return all;
}

}  // namespace muster
