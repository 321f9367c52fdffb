#include "common/pipeline/partition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <utility>

#include "common/base/check.h"

namespace muster {

namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
// How many beginnings of a split the search keeps: as many as it can process in about a second.
constexpr std::size_t kFewestBeginnings = 16;
constexpr std::size_t kMostSteps = 1 << 18;

// For each stage of a rank: the number of microbatches whose activations the rank holds at one time.
struct Holding {
  int rank = 0;
  std::map<int, int> held;  // by stage
};

bool holds_no_more(const Holding& one, const Holding& other) {
  return std::ranges::all_of(one.held,
                             [&](const auto& each) { return each.second <= other.held.at(each.first); });
}

// Returns the times at which a rank holds the most activations, for each rank. If the rank holds at one time
// at least as many as at another time, for each of its stages, the other time is left out.
std::vector<Holding> fullest_times(const Schedule& schedule) {
  std::vector<Holding> all;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    Holding now{static_cast<int>(rank), {}};
    for (const Instruction& each : schedule.ranks[rank])
      if (each.op == Op::kForward) now.held[each.stage] = 0;
    std::vector<Holding> fullest;
    for (const Instruction& each : schedule.ranks[rank]) {
      if (is_last_backward(each.op)) --now.held[each.stage];
      if (each.op != Op::kForward) continue;
      ++now.held[each.stage];
      if (std::ranges::any_of(fullest, [&](const Holding& other) { return holds_no_more(now, other); }))
        continue;
      std::erase_if(fullest, [&](const Holding& other) { return holds_no_more(other, now); });
      fullest.push_back(now);
    }
    std::ranges::move(fullest, std::back_inserter(all));
  }
  return all;
}

// Adds up the costs of consecutive layers. A stage has the layers from `first` up to, but not including,
// `last`.
class Sums {
 public:
  Sums(std::span<const LayerCost> layers, PartitionBy by, double parameter_copies)
      : layers_(layers), copies_(parameter_copies) {
    for (const LayerCost& layer : layers) {
      const auto bytes = static_cast<double>(layer.parameter_bytes);
      const StageTimes& times = layer.times;
      load_.push_back(load_.back() +
                      (by == PartitionBy::kParameters ? bytes : times.forward + times.input + times.weight));
      parameters_.push_back(parameters_.back() + bytes);
      activations_.push_back(activations_.back() + static_cast<double>(layer.activation_bytes));
      most_input_ = std::max(most_input_, static_cast<double>(layer.input_bytes));
    }
  }

  std::size_t layers() const { return layers_.size(); }
  double load(std::size_t first, std::size_t last) const { return load_[last] - load_[first]; }
  double memory(std::size_t first, std::size_t last, int held) const {
    return copies_ * (parameters_[last] - parameters_[first]) +
           held *
               (activations_[last] - activations_[first] + static_cast<double>(layers_[first].input_bytes));
  }
  // Returns an upper limit for the memory of a stage that begins at layer `first` or later, and that holds
  // the activations of `held` microbatches.
  double most_memory(std::size_t first, int held) const {
    return copies_ * (parameters_.back() - parameters_[first]) +
           held * (activations_.back() - activations_[first] + most_input_);
  }

 private:
  std::span<const LayerCost> layers_;
  double copies_;
  double most_input_ = 0;
  std::vector<double> load_{0}, parameters_{0}, activations_{0};
};

enum class Goal { kSlowest, kSquares, kMemory };

struct Bounds {
  double load = kUnbounded;    // per stage
  double memory = kUnbounded;  // per rank
};

struct Found {
  double cost = 0;
  Partition partition;
};

// Finds the best split. A "beginning" is a split of some of the first layers into some of the first stages.
// The search adds one stage at a time. For each layer, it keeps only the best beginnings that end before that
// layer.
class Search {
 public:
  Search(const Sums& sums, int stages, const std::vector<Holding>& holdings, Goal goal, Bounds bounds)
      : sums_(sums),
        stages_(static_cast<std::size_t>(stages)),
        holdings_(holdings),
        goal_(goal),
        bounds_(bounds) {}

  std::optional<Found> run() {
    std::vector<std::vector<Beginning>> before(sums_.layers() + 1);
    before[0] = {{0, std::vector<double>(holdings_.size()), {}}};
    for (std::size_t stage = 0; stage < stages_; ++stage) {
      std::vector<std::vector<Beginning>> after(sums_.layers() + 1);
      const std::size_t behind = stages_ - 1 - stage;
      for (std::size_t first = stage; first + behind < sums_.layers(); ++first) {
        const std::size_t begin = behind == 0 ? sums_.layers() : first + 1;
        for (std::size_t last = begin; last + behind <= sums_.layers(); ++last)
          for (const Beginning& each : before[first]) extend(each, stage, {first, last}, after[last]);
      }
      for (auto& beginnings : after) keep_the_best(beginnings);
      before = std::move(after);
    }
    auto& whole = before.back();
    if (whole.empty()) return std::nullopt;
    auto& best = *std::ranges::min_element(whole, {}, &Beginning::cost);
    return Found{best.cost, std::move(best.partition)};
  }

 private:
  struct Beginning {
    double cost = 0;
    std::vector<double> memory;  // for each of `holdings_`; 0 once its rank cannot exceed the limit
    Partition partition;
  };

  void extend(const Beginning& so_far, std::size_t stage, std::pair<std::size_t, std::size_t> layers,
              std::vector<Beginning>& to) const {
    const auto [first, last] = layers;
    const double load = sums_.load(first, last);
    if (load > bounds_.load) return;
    Beginning next{so_far.cost, so_far.memory, {}};
    double most = 0;
    for (std::size_t i = 0; i < holdings_.size(); ++i) {
      const auto held = holdings_[i].held.find(static_cast<int>(stage));
      if (held == holdings_[i].held.end()) continue;
      next.memory[i] += sums_.memory(first, last, held->second);
      most = std::max(most, next.memory[i]);
      if (next.memory[i] > bounds_.memory) return;
      if (cannot_matter(holdings_[i], stage, last, next.memory[i])) next.memory[i] = 0;
    }
    switch (goal_) {
      case Goal::kSlowest: next.cost = std::max(next.cost, load); break;
      case Goal::kSquares: next.cost += load * load; break;
      case Goal::kMemory: next.cost = std::max(next.cost, most); break;
    }
    for (const Beginning& other : to)
      if (is_no_better(next, other)) return;
    std::erase_if(to, [&](const Beginning& other) { return is_no_better(other, next); });
    next.partition = so_far.partition;
    next.partition.push_back(static_cast<int>(first));
    to.push_back(std::move(next));
  }

  static bool is_no_better(const Beginning& one, const Beginning& other) {
    return one.cost >= other.cost && std::ranges::equal(one.memory, other.memory, std::greater_equal<>());
  }

  // Some of the remaining layers will go into later stages of the rank. Returns true if the rank stays within
  // the memory limit, no matter which layers these are.
  bool cannot_matter(const Holding& holding, std::size_t stage, std::size_t layer, double memory) const {
    const auto next = holding.held.upper_bound(static_cast<int>(stage));
    if (next == holding.held.end()) return true;
    if (goal_ == Goal::kMemory) return false;
    double most = 0;
    for (auto each = next; each != holding.held.end(); ++each) most += sums_.most_memory(layer, each->second);
    return memory + most <= bounds_.memory;
  }

  void keep_the_best(std::vector<Beginning>& beginnings) const {
    const std::size_t most =
        std::max(kFewestBeginnings, kMostSteps / (stages_ * sums_.layers() * sums_.layers()));
    if (beginnings.size() <= most) return;
    std::ranges::sort(beginnings, {}, &Beginning::cost);
    const auto rest = beginnings.begin() + static_cast<std::ptrdiff_t>(most / 2);
    std::ranges::sort(rest, beginnings.end(), {},
                      [](const Beginning& each) { return std::ranges::max(each.memory); });
    beginnings.resize(most);
  }

  const Sums& sums_;
  std::size_t stages_;
  const std::vector<Holding>& holdings_;
  Goal goal_;
  Bounds bounds_;
};

Partition uniform_partition(std::size_t layers, int stages) {
  Partition partition;
  for (std::size_t stage = 0; stage < static_cast<std::size_t>(stages); ++stage)
    partition.push_back(static_cast<int>(stage * layers / static_cast<std::size_t>(stages)));
  return partition;
}

// Finds the split in which the slowest stage is as fast as possible. With a memory limit the search can take
// long. So it first allows only stages that are at most 1.1 times as slow as the slowest stage without the
// limit. If it finds nothing, it allows 1.5 times, and then any time.
std::optional<Found> find_slowest(const Sums& sums, int stages, const std::vector<Holding>& holdings,
                                  Bounds bounds) {
  const auto any = Search(sums, stages, {}, Goal::kSlowest, {}).run();
  if (holdings.empty()) return any;
  for (const double factor : {1.1, 1.5, kUnbounded}) {
    bounds.load = any->cost > 0 ? any->cost * factor : kUnbounded;
    if (auto found = Search(sums, stages, holdings, Goal::kSlowest, bounds).run()) return found;
  }
  return std::nullopt;
}

std::int64_t rounded_up(double bytes) {
  return static_cast<std::int64_t>(std::ceil(bytes));
}

std::unexpected<Error> too_little_memory(const Sums& sums, const Schedule& schedule, std::int64_t bytes) {
  const auto least = Search(sums, schedule.stages, fullest_times(schedule), Goal::kMemory, {}).run();
  CHECK(least.has_value());
  return failure(ErrorCode::kInvalidArgument,
                 "{} bytes of memory a rank are too little for {} layers in {} stages by {}: "
                 "at least {} are needed",
                 bytes, sums.layers(), schedule.stages, schedule.name, rounded_up(least->cost));
}

std::size_t end_of(const Partition& partition, std::size_t stage, std::size_t layers) {
  return stage + 1 < partition.size() ? static_cast<std::size_t>(partition[stage + 1]) : layers;
}

// Moves layers between neighboring stages.
class Moves {
 public:
  Moves(std::span<const LayerCost> layers, const Schedule& schedule, const PartitionLimits& limits)
      : layers_(layers), schedule_(schedule), limits_(limits) {}

  // Moves layers until no move shortens the makespan. Returns the makespan.
  double improve(Partition& partition) const {
    double least = makespan(partition);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t first = 1; first < partition.size(); ++first) {
        for (const std::size_t count : {1, 2})
          for (const int by : {-1, 1}) moved = move({first, first + count}, by, partition, least) || moved;
      }
    }
    return least;
  }

 private:
  bool move(std::pair<std::size_t, std::size_t> stages, int by, Partition& partition, double& least) const {
    if (stages.second > partition.size()) return false;
    Partition moved = partition;
    for (std::size_t stage = stages.first; stage < stages.second; ++stage) moved[stage] += by;
    if (!check_partition(moved, static_cast<int>(layers_.size()), schedule_.stages) || !fits(moved))
      return false;
    const double now = makespan(moved);
    if (now >= least * (1 - 1e-9)) return false;
    partition = std::move(moved);
    least = now;
    return true;
  }

  double makespan(const Partition& partition) const {
    return simulate_schedule(schedule_, times_of_stages(layers_, partition)).makespan;
  }
  bool fits(const Partition& partition) const {
    if (!limits_.memory_bytes) return true;
    const auto memory = memory_of_ranks(layers_, partition, schedule_, limits_.parameter_copies);
    return std::ranges::max(memory) <= static_cast<double>(*limits_.memory_bytes);
  }

  std::span<const LayerCost> layers_;
  const Schedule& schedule_;
  const PartitionLimits& limits_;
};

}  // namespace

std::optional<PartitionBy> find_partition_name(std::string_view name) {
  constexpr std::array kNames{std::pair{std::string_view("uniform"), PartitionBy::kUniform},
                              std::pair{std::string_view("parameters"), PartitionBy::kParameters},
                              std::pair{std::string_view("profile"), PartitionBy::kProfile}};
  for (const auto& [known, by] : kNames)
    if (known == name) return by;
  return std::nullopt;
}

Expected<Partition> partition_layers(PartitionBy by, std::span<const LayerCost> layers,
                                     const Schedule& schedule, const PartitionLimits& limits) {
  if (std::ssize(layers) < schedule.stages)
    return failure(ErrorCode::kInvalidArgument,
                   "{} layers cannot be split into {} stages: each needs at least one", layers.size(),
                   schedule.stages);
  const Sums sums(layers, by, limits.parameter_copies);
  if (by == PartitionBy::kUniform) {
    Partition partition = uniform_partition(layers.size(), schedule.stages);
    if (!limits.memory_bytes) return partition;
    const auto memory = memory_of_ranks(layers, partition, schedule, limits.parameter_copies);
    const auto most = std::ranges::max_element(memory);
    if (*most <= static_cast<double>(*limits.memory_bytes)) return partition;
    return failure(ErrorCode::kInvalidArgument,
                   "{} bytes of memory a rank are too little for the uniform split, where rank {} needs {}: "
                   "split by 'profile' or 'parameters'",
                   *limits.memory_bytes, most - memory.begin(), rounded_up(*most));
  }
  std::vector<Holding> holdings;
  Bounds bounds;
  if (limits.memory_bytes) {
    holdings = fullest_times(schedule);
    bounds.memory = static_cast<double>(*limits.memory_bytes);
  }
  const auto slowest = find_slowest(sums, schedule.stages, holdings, bounds);
  if (!slowest) return too_little_memory(sums, schedule, *limits.memory_bytes);
  bounds.load = slowest->cost;
  const auto best = Search(sums, schedule.stages, holdings, Goal::kSquares, bounds).run();
  return best ? best->partition : slowest->partition;
}

Expected<Partition> shortest_partition(std::span<const LayerCost> layers, const Schedule& schedule,
                                       const PartitionLimits& limits) {
  auto best = partition_layers(PartitionBy::kProfile, layers, schedule, limits);
  if (!best) return best;
  const Moves moves(layers, schedule, limits);
  double least = moves.improve(*best);
  if (auto uniform = partition_layers(PartitionBy::kUniform, layers, schedule, limits)) {
    if (moves.improve(*uniform) < least) best = std::move(uniform);
  }
  return best;
}

Status check_partition(const Partition& partition, int layers, int stages) {
  if (std::ssize(partition) != stages)
    return failure(ErrorCode::kInvalidArgument,
                   "the first layers of {} stages are given, and there are {} stages", partition.size(),
                   stages);
  for (std::size_t stage = 0; stage < partition.size(); ++stage) {
    const bool wrong = stage == 0 ? partition[0] != 0 : partition[stage] <= partition[stage - 1];
    if (wrong || partition[stage] >= layers)
      return failure(ErrorCode::kInvalidArgument,
                     "stage {} cannot begin with layer {}: the first stage begins with layer 0, "
                     "and each later stage after the one before it, at layer {} at most",
                     stage, partition[stage], layers - 1);
  }
  return {};
}

std::vector<StageTimes> times_of_stages(std::span<const LayerCost> layers, const Partition& partition) {
  std::vector<StageTimes> times;
  for (std::size_t stage = 0; stage < partition.size(); ++stage) {
    StageTimes& sum = times.emplace_back(0, 0, 0);
    for (auto i = static_cast<std::size_t>(partition[stage]); i < end_of(partition, stage, layers.size());
         ++i) {
      sum.forward += layers[i].times.forward;
      sum.input += layers[i].times.input;
      sum.weight += layers[i].times.weight;
    }
  }
  return times;
}

std::vector<double> memory_of_ranks(std::span<const LayerCost> layers, const Partition& partition,
                                    const Schedule& schedule, double parameter_copies) {
  const Sums sums(layers, PartitionBy::kProfile, parameter_copies);
  std::vector<double> memory(schedule.ranks.size());
  for (const Holding& holding : fullest_times(schedule)) {
    double sum = 0;
    for (const auto& [stage, held] : holding.held) {
      const auto at = static_cast<std::size_t>(stage);
      sum += sums.memory(static_cast<std::size_t>(partition[at]), end_of(partition, at, layers.size()), held);
    }
    double& most = memory[static_cast<std::size_t>(holding.rank)];
    most = std::max(most, sum);
  }
  return memory;
}

}  // namespace muster
