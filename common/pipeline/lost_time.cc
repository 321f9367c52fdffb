#include "common/pipeline/lost_time.h"

#include <algorithm>

namespace muster {

namespace {

StageTimes mean_of(const std::vector<StageTimes>& times) {
  StageTimes mean{.forward = 0, .input = 0, .weight = 0};
  const auto count = static_cast<double>(times.size());
  for (const StageTimes& each : times) {
    mean.forward += each.forward / count;
    mean.input += each.input / count;
    mean.weight += each.weight / count;
  }
  return mean;
}

double idle_of(const SimulatedSchedule& simulated) {
  return simulated.bubble_fraction * simulated.makespan;
}

}  // namespace

LostTime lost_time(const Schedule& schedule, const std::vector<StageTimes>& times,
                   const std::vector<std::vector<TimedInstruction>>& measured) {
  LostTime lost;
  double begin = 0;
  double end = 0;
  bool is_first = true;
  for (const auto& rank : measured) {
    for (const TimedInstruction& each : rank) {
      begin = is_first ? each.begin : std::min(begin, each.begin);
      end = is_first ? each.end : std::max(end, each.end);
      is_first = false;
      lost.compute += (each.end - each.begin) / static_cast<double>(measured.size());
    }
  }
  lost.step = end - begin;
  const double idle = lost.step - lost.compute;
  const std::vector<StageTimes> equal(times.size(), mean_of(times));
  lost.bubble = std::min(idle, idle_of(simulate_schedule(schedule, equal)));
  const double waited = std::min(idle, idle_of(simulate_schedule(schedule, times)));
  lost.imbalance = std::max(0.0, waited - lost.bubble);
  lost.link = idle - lost.bubble - lost.imbalance;
  return lost;
}

}  // namespace muster
