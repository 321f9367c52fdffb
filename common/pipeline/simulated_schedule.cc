#include "common/pipeline/simulated_schedule.h"

#include <algorithm>
#include <map>
#include <optional>

#include "common/base/check.h"

namespace muster {

namespace {

double duration_of(const Instruction& instruction, const StageTimes& times) {
  switch (instruction.op) {
    case Op::kForward: return times.forward;
    case Op::kBackward: return times.input + times.weight;
    case Op::kBackwardInput: return times.input;
    case Op::kBackwardWeight: return times.weight;
    default: return 0;
  }
}

class Simulation {
 public:
  Simulation(const Schedule& schedule, const std::vector<StageTimes>& times, double link)
      : schedule_(schedule), times_(times), link_(link), rank_of_(ranks_of_stages(schedule)) {
    for (const auto& order : schedule.ranks) {
      auto& computed = orders_.emplace_back();
      std::ranges::copy_if(order, std::back_inserter(computed),
                           [](const Instruction& each) { return is_compute(each.op); });
    }
    result_.ranks.resize(orders_.size());
    free_at_.resize(orders_.size());
  }

  SimulatedSchedule run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < orders_.size(); ++rank) {
        while (advance(rank)) moved = true;
      }
    }
    double busy = 0;
    for (std::size_t rank = 0; rank < orders_.size(); ++rank) {
      CHECK(result_.ranks[rank].size() == orders_[rank].size(), "rank {} waits forever", rank);
      result_.makespan = std::max(result_.makespan, free_at_[rank]);
      for (const TimedInstruction& each : result_.ranks[rank]) busy += each.end - each.begin;
    }
    const double all = result_.makespan * static_cast<double>(orders_.size());
    result_.bubble_fraction = all > 0 ? 1 - busy / all : 0;
    find_peaks();
    return std::move(result_);
  }

 private:
  bool advance(std::size_t rank) {
    const auto& order = orders_[rank];
    auto& done = result_.ranks[rank];
    if (done.size() == order.size()) return false;
    const std::size_t count = order[done.size()].with_next ? 2 : 1;
    double begin = free_at_[rank];
    for (std::size_t i = 0; i < count; ++i) {
      const auto ready = ready_at(static_cast<int>(rank), order[done.size() + i]);
      if (!ready) return false;
      begin = std::max(begin, *ready);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Instruction& each = order[done.size()];
      const double end = begin + duration_of(each, times_[static_cast<std::size_t>(each.stage)]);
      done.push_back({each, begin, end});
      if (each.op != Op::kBackwardWeight) ends_[{each.op == Op::kForward, each.stage, each.microbatch}] = end;
      begin = end;
    }
    free_at_[rank] = begin;
    return true;
  }

  // Returns the time at which the input of `each` is available. Returns nothing if that time is not known
  // yet.
  std::optional<double> ready_at(int rank, const Instruction& each) const {
    const auto input = input_of(each, schedule_.stages);
    if (!input) return 0;
    const auto end = ends_.find({input->op == Op::kForward, input->stage, input->microbatch});
    if (end == ends_.end()) return std::nullopt;
    return end->second + (rank_of_[static_cast<std::size_t>(input->stage)] == rank ? 0 : link_);
  }

  bool is_a_v() const {
    const int ranks = static_cast<int>(orders_.size());
    if (schedule_.stages != 2 * ranks) return false;
    for (int stage = 0; stage < ranks; ++stage) {
      if (rank_of_[static_cast<std::size_t>(stage)] !=
          rank_of_[static_cast<std::size_t>(schedule_.stages - 1 - stage)])
        return false;
    }
    return ranks > 1 || schedule_.name.starts_with("ZBV") || schedule_.name.starts_with("DualPipe");
  }

  void find_peaks() {
    const double unit = is_a_v() ? 0.5 : 1;
    for (const auto& order : orders_) {
      int held = 0;
      int peak = 0;
      for (const Instruction& each : order) {
        if (each.op == Op::kForward) peak = std::max(peak, ++held);
        if (is_last_backward(each.op)) --held;
      }
      result_.peak_activations.push_back(peak * unit);
    }
  }

  const Schedule& schedule_;
  const std::vector<StageTimes>& times_;
  double link_;
  std::vector<int> rank_of_;
  std::vector<std::vector<Instruction>> orders_;
  std::vector<double> free_at_;
  std::map<std::tuple<bool, int, int>, double> ends_;  // key: is forward, stage, microbatch
  SimulatedSchedule result_;
};

}  // namespace

SimulatedSchedule simulate_schedule(const Schedule& schedule, const std::vector<StageTimes>& times,
                                    double link) {
  CHECK(times.size() == static_cast<std::size_t>(schedule.stages));
  return Simulation(schedule, times, link).run();
}

}  // namespace muster
