#include "runtime/pipeline/pipeline_times.h"

#include <algorithm>
#include <fmt/format.h>
#include <muster/comm/collectives.h>
#include <nlohmann/json.hpp>

#include "common/pipeline/lost_time.h"
#include "common/pipeline/schedule_picture.h"
#include "runtime/rank/trace.h"

namespace muster {

namespace {

constexpr std::size_t kPictureColumns = 110;

double ms_between(TimePoint begin, TimePoint end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

struct OfStage {
  std::vector<double> forward, input, weight;
};

}  // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

void PipelineTimes::add(const Instruction& instruction, TimePoint begin, TimePoint input_at) {
  const TimePoint end = Clock::now();
  computed_.push_back({instruction, begin, input_at == TimePoint() ? end : input_at, end});
  if (TraceFile* file = trace_file())
    file->add(TraceTrack::kPipeline, text_of(instruction), begin, end,
              trace_argument("microbatch", instruction.microbatch));
}

Duration PipelineTimes::waited(TimePoint begin, TimePoint end) const {
  Duration waited = end - begin;
  for (const Computed& each : computed_) waited -= each.end - each.begin;
  return waited;
}

PipelineProfile PipelineTimes::profile(const Schedule& schedule, const Group& group) const {
  PipelineProfile profile;
  profile.on_gpus = group.device().is_cuda();
  if (profile.on_gpus) return profile;
  // All ranks leave the barrier at about the same time. So times relative to that moment can be
  // compared between machines.
  barrier(group);
  const TimePoint here = Clock::now();
  nlohmann::json mine = nlohmann::json::array();
  for (const Computed& each : computed_)
    mine.push_back({static_cast<int>(each.instruction.op), each.instruction.stage,
                    each.instruction.microbatch, ms_between(here, each.begin),
                    ms_between(here, each.input_at), ms_between(here, each.end)});
  std::vector<OfStage> stages(static_cast<std::size_t>(schedule.stages));
  std::vector<std::vector<TimedInstruction>> measured;
  double first = 0;
  for (const nlohmann::json& rank : all_gather_object(group, mine)) {
    auto& computed = measured.emplace_back();
    for (const nlohmann::json& each : rank) {
      const Instruction instruction{.op = static_cast<Op>(each.at(0).get<int>()),
                                    .stage = each.at(1).get<int>(),
                                    .microbatch = each.at(2).get<int>()};
      const double begin = each.at(3).get<double>();
      const double input_at = each.at(4).get<double>();
      const double end = each.at(5).get<double>();
      computed.push_back({instruction, begin, end});
      first = std::min(first, begin);
      OfStage& of_stage = stages[static_cast<std::size_t>(instruction.stage)];
      if (instruction.op == Op::kForward) of_stage.forward.push_back(end - begin);
      if (is_backward(instruction.op) && instruction.op != Op::kBackwardWeight)
        of_stage.input.push_back(input_at - begin);
      if (is_last_backward(instruction.op))
        of_stage.weight.push_back(end - (instruction.op == Op::kBackward ? input_at : begin));
    }
  }
  for (auto& rank : measured) {
    for (TimedInstruction& each : rank) {
      each.begin -= first;
      each.end -= first;
    }
  }
  std::vector<StageTimes> times;
  for (const OfStage& each : stages) {
    times.push_back({median_of(each.forward), median_of(each.input), median_of(each.weight)});
    profile.stages.push_back({times.back().forward, times.back().input, times.back().weight});
  }
  const SimulatedSchedule simulated = simulate_schedule(schedule, times);
  const LostTime lost = lost_time(schedule, times, measured);
  profile.step_ms = lost.step;
  profile.simulated_ms = simulated.makespan;
  profile.compute_ms = lost.compute;
  profile.bubble_ms = lost.bubble;
  profile.imbalance_ms = lost.imbalance;
  profile.link_ms = lost.link;
  const bool one_stage_a_rank = schedule.stages == static_cast<int>(schedule.ranks.size());
  const double longest = std::max({lost.step, simulated.makespan, 1e-9});
  const auto picture = [&](const std::vector<std::vector<TimedInstruction>>& ranks, double makespan) {
    const auto columns = static_cast<std::size_t>(kPictureColumns * makespan / longest);
    return schedule_picture(ranks, one_stage_a_rank, {.columns = std::max<std::size_t>(columns, 1)});
  };
  profile.measured = picture(measured, lost.step);
  profile.simulated = picture(simulated.ranks, simulated.makespan);
  return profile;
}

std::string PipelineProfile::text() const {
  if (on_gpus) return "no profile on GPUs: a rank launches instructions and does not wait for their end\n";
  if (step_ms == 0) return "";
  const auto share = [&](double part) { return 100 * part / step_ms; };
  std::string text = fmt::format("measured, {:.3f} ms a step\n{}simulated, {:.3f} ms\n{}", step_ms, measured,
                                 simulated_ms, simulated);
  text += fmt::format("a rank's time: {:.1f} % compute, {:.1f} % bubble, {:.1f} % imbalance, {:.1f} % link\n",
                      share(compute_ms), share(bubble_ms), share(imbalance_ms), share(link_ms));
  for (std::size_t i = 0; i < stages.size(); ++i)
    text += fmt::format(
        "stage {}: forward {:.3f} ms, backward {:.3f} ms for the input, {:.3f} ms for the weights\n", i,
        stages[i].forward_ms, stages[i].input_ms, stages[i].weight_ms);
  return text;
}

}  // namespace muster
