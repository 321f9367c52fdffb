#include "bench/pipeline/replay.h"

#include "bench/measure.h"

namespace muster::bench {

Replay::Replay(const Schedule& schedule, const std::vector<PipelineStage>& stages, const PipelineLoss& loss,
               const at::Tensor& input, const at::Tensor& target)
    : loss_(loss),
      input_(input),
      target_(target),
      stages_(schedule.stages),
      pass_{.seed = 1, .trains = true, .loss_scale = 1.0 / schedule.microbatches},
      computes_(
          make_exchange_plan(schedule, stages.front().group().rank(), /*forward_only=*/false).computes) {
  for (const PipelineStage& stage : stages) {
    const int index = stage.stage_index();
    StageRunner& runner =
        runners_.try_emplace(index, stage, loss_, kinds_[index], /*recompute=*/false).first->second;
    TensorKind kind = kind_of_tensor(input);
    kind.needs_grad = !stage.is_first();
    runner.find_kinds({kind}, pass_);
  }
}

// Inputs from another rank are in separate memory, so this copies.
at::Tensor Replay::inputs_of(int stage) const {
  return stage == 0 ? input_ : input_.clone();
}

Replay::Times Replay::run() {
  struct Sum {
    double milliseconds = 0;
    int count = 0;
    double mean() const { return count == 0 ? 0 : milliseconds / count; }
  };
  std::map<std::pair<int, Op>, Sum> sums;
  Times times;
  const auto timed = [&](int stage, Op op, const auto& work) {
    const std::int64_t began = now_ns();
    work();
    const double milliseconds = static_cast<double>(now_ns() - began) / 1e6;
    Sum& sum = sums[{stage, op}];
    sum.milliseconds += milliseconds;
    ++sum.count;
    times.all += milliseconds;
  };
  for (const Instruction& each : computes_) {
    StageRunner& runner = runners_.at(each.stage);
    const auto forward = [&, given = std::vector{inputs_of(each.stage)}] {
      runner.forward(each.microbatch, given, target_, pass_);
    };
    // Outputs have the inputs' shape.
    const bool last = each.stage == stages_ - 1;
    const auto backward = [&, given = std::vector<at::Tensor>(last ? 0 : 1, input_)] {
      runner.backward(each.microbatch, given, pass_);
    };
    if (each.op == Op::kForward) timed(each.stage, Op::kForward, forward);
    if (each.op == Op::kBackward || each.op == Op::kBackwardInput)
      timed(each.stage, Op::kBackwardInput, backward);
    if (each.op == Op::kBackward || each.op == Op::kBackwardWeight)
      timed(each.stage, Op::kBackwardWeight, [&] { runner.backward_weight(each.microbatch); });
  }
  for (auto& [stage, runner] : runners_) {
    runner.take_losses();
    const auto mean = [&, index = stage](Op op) { return sums[{index, op}].mean(); };
    times.stages[stage] = {.forward = mean(Op::kForward),
                           .input = mean(Op::kBackwardInput),
                           .weight = mean(Op::kBackwardWeight)};
  }
  return times;
}

}  // namespace muster::bench
