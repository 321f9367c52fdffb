// Splits of layers into stages: no other split is better, with or without a limit of memory; impossible
// requests are refused.
#include "common/pipeline/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <random>

#include "common/pipeline/make_schedule.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Schedule schedule_of(std::string_view name, int ranks, int microbatches, std::optional<int> chunks = {}) {
  auto schedule = make_schedule(name, {.ranks = ranks, .microbatches = microbatches, .chunks = chunks});
  EXPECT_TRUE(schedule) << (schedule ? "" : schedule.error().message());
  return schedule.value_or(Schedule());
}

std::vector<LayerCost> layers_of(const std::vector<double>& forwards) {
  std::vector<LayerCost> layers;
  for (const double forward : forwards) layers.push_back({.times = {forward, forward, forward}});
  return layers;
}

std::vector<LayerCost> any_layers(int count, std::mt19937& random) {
  const auto number = [&](int below) { return std::uniform_int_distribution(0, below - 1)(random); };
  std::vector<LayerCost> layers(static_cast<std::size_t>(count));
  for (LayerCost& layer : layers)
    layer = {.times = {1.0 + number(9), number(9) * 1.0, number(9) * 1.0},
             .parameter_bytes = number(3) == 0 ? 0 : number(100),
             .activation_bytes = number(50),
             .input_bytes = number(20)};
  return layers;
}

double slowest(const std::vector<LayerCost>& layers, const Partition& partition) {
  double most = 0;
  for (const StageTimes& each : times_of_stages(layers, partition))
    most = std::max(most, each.forward + each.input + each.weight);
  return most;
}

// Calls `use` with every partition.
template <class Use>
void for_each_partition(int layers, int stages, const Use& use, Partition so_far = {0}) {
  if (std::ssize(so_far) == stages) return use(so_far);
  so_far.push_back(0);
  for (int next = so_far[so_far.size() - 2] + 1; next < layers; ++next) {
    so_far.back() = next;
    for_each_partition(layers, stages, use, so_far);
  }
}

// The most memory that each rank holds, found by replaying its instructions.
std::vector<double> held_by_replay(const std::vector<LayerCost>& layers, const Partition& partition,
                                   const Schedule& schedule) {
  std::vector<double> activations;
  std::vector<double> parameters;
  for (std::size_t stage = 0; stage < partition.size(); ++stage) {
    const auto first = static_cast<std::size_t>(partition[stage]);
    const std::size_t last =
        stage + 1 < partition.size() ? static_cast<std::size_t>(partition[stage + 1]) : layers.size();
    activations.push_back(static_cast<double>(layers[first].input_bytes));
    parameters.push_back(0);
    for (std::size_t i = first; i < last; ++i) {
      activations.back() += static_cast<double>(layers[i].activation_bytes);
      parameters.back() += 4.0 * static_cast<double>(layers[i].parameter_bytes);
    }
  }
  std::vector<double> most;
  for (const auto& order : schedule.ranks) {
    double now = 0;
    double peak = 0;
    std::vector<bool> seen(partition.size());
    for (const Instruction& each : order) {
      const auto stage = static_cast<std::size_t>(each.stage);
      if (!seen[stage]) peak += parameters[stage], now += parameters[stage], seen[stage] = true;
      if (each.op == Op::kForward) now += activations[stage];
      peak = std::max(peak, now);
      if (is_last_backward(each.op)) now -= activations[stage];
    }
    most.push_back(peak);
  }
  return most;
}

TEST(Partition, ByProfileIsTheBestOfAllSplits) {
  std::mt19937 random(7);
  int bound = 0;
  int refused = 0;
  const std::vector<Schedule> schedules{
      schedule_of("GPipe", 3, 4),         schedule_of("1F1B", 4, 6),
      schedule_of("ZBH1", 2, 4),          schedule_of("Interleaved1F1B", 2, 4, 2),
      schedule_of("ZBVZeroBubble", 2, 4), schedule_of("LoopedBFS", 2, 3, 3)};
  for (int round = 0; round < 300; ++round) {
    const Schedule& schedule = schedules[static_cast<std::size_t>(round) % schedules.size()];
    const auto layers = any_layers(schedule.stages + round % 5, random);
    const int count = static_cast<int>(layers.size());
    double least_memory = std::numeric_limits<double>::infinity();
    double most_memory = 0;
    for_each_partition(count, schedule.stages, [&](const Partition& each) {
      const double memory = std::ranges::max(memory_of_ranks(layers, each, schedule, 4));
      least_memory = std::min(least_memory, memory);
      most_memory = std::max(most_memory, memory);
    });
    const double limit = std::floor(least_memory + (round % 7 - 1) * (most_memory - least_memory) / 6);
    double best = std::numeric_limits<double>::infinity();
    double best_without = best;
    for_each_partition(count, schedule.stages, [&](const Partition& each) {
      best_without = std::min(best_without, slowest(layers, each));
      if (std::ranges::max(memory_of_ranks(layers, each, schedule, 4)) <= limit)
        best = std::min(best, slowest(layers, each));
    });
    const auto found = partition_layers(PartitionBy::kProfile, layers, schedule,
                                        {.memory_bytes = static_cast<std::int64_t>(limit)});
    ASSERT_EQ(found.has_value(), std::isfinite(best)) << round;
    if (found) {
      EXPECT_TRUE(check_partition(*found, count, schedule.stages));
      EXPECT_DOUBLE_EQ(slowest(layers, *found), best) << round << " " << schedule.name;
      EXPECT_LE(std::ranges::max(memory_of_ranks(layers, *found, schedule, 4)), limit);
      if (best > best_without) ++bound;
    } else {
      ++refused;
      EXPECT_THAT(found.error().message(),
                  HasSubstr(fmt::format("at least {} are needed", static_cast<int>(least_memory))));
    }
    EXPECT_DOUBLE_EQ(slowest(layers, partition_layers(PartitionBy::kProfile, layers, schedule).value()),
                     best_without);
  }
  EXPECT_GT(bound, 20) << "splits for which the limit mattered";
  EXPECT_GT(refused, 20);
}

TEST(Partition, KnowsTheMostMemoryThatEachRankHolds) {
  std::mt19937 random(3);
  for (const auto& [name, chunks] : {std::pair{"GPipe", 1},
                                     {"1F1B", 1},
                                     {"Interleaved1F1B", 2},
                                     {"ZBH1", 1},
                                     {"InterleavedZeroBubble", 3},
                                     {"ZBVZeroBubble", 2},
                                     {"DualPipeV", 2}}) {
    const Schedule schedule = schedule_of(name, 3, 12, chunks);
    for (int round = 0; round < 20; ++round) {
      const auto layers = any_layers(schedule.stages, random);
      const auto partition = partition_layers(PartitionBy::kUniform, layers, schedule).value();
      EXPECT_EQ(memory_of_ranks(layers, partition, schedule, 4), held_by_replay(layers, partition, schedule))
          << name;
    }
    // With equal layers: as many microbatches' activations as the simulator counts.
    std::vector<LayerCost> equal(static_cast<std::size_t>(schedule.stages), {.activation_bytes = 1});
    const auto partition = partition_layers(PartitionBy::kUniform, equal, schedule).value();
    auto peaks = simulate_schedule(schedule, times_of_stages(equal, partition)).peak_activations;
    const bool is_a_v = std::string_view(name).contains("V");
    for (double& each : peaks) each *= is_a_v ? 2 : 1;
    EXPECT_EQ(memory_of_ranks(equal, partition, schedule, 4), peaks) << name;
  }
}

TEST(Partition, ByProfileTakesLessTimeThanUniform) {
  const auto layers = layers_of({1, 1, 1, 1, 1, 1, 6, 1, 1, 9, 1, 1});
  const Schedule schedule = schedule_of("1F1B", 4, 16);
  const auto makespan = [&](PartitionBy by) {
    const auto partition = partition_layers(by, layers, schedule).value();
    return simulate_schedule(schedule, times_of_stages(layers, partition)).makespan;
  };
  EXPECT_LT(makespan(PartitionBy::kProfile), 0.85 * makespan(PartitionBy::kUniform));
}

TEST(Partition, WithTheShortestStepIsNearlyTheBestOfAll) {
  std::mt19937 random(11);
  const std::vector<Schedule> schedules{schedule_of("1F1B", 2, 8), schedule_of("1F1B", 4, 6),
                                        schedule_of("ZBH1", 3, 6), schedule_of("Interleaved1F1B", 2, 4, 2),
                                        schedule_of("ZBVZeroBubble", 2, 6)};
  int best_of_all = 0;
  int shorter = 0;
  const int rounds = 200;
  for (int round = 0; round < rounds; ++round) {
    const Schedule& schedule = schedules[static_cast<std::size_t>(round) % schedules.size()];
    const auto layers = any_layers(schedule.stages + 1 + round % 6, random);
    const auto makespan = [&](const Partition& partition) {
      return simulate_schedule(schedule, times_of_stages(layers, partition)).makespan;
    };
    PartitionLimits limits;
    if (round % 2 == 0) {
      const auto free = partition_layers(PartitionBy::kProfile, layers, schedule).value();
      limits.memory_bytes =
          static_cast<std::int64_t>(std::ranges::max(memory_of_ranks(layers, free, schedule, 4)));
    }
    const auto fits = [&](const Partition& partition) {
      return !limits.memory_bytes || std::ranges::max(memory_of_ranks(layers, partition, schedule, 4)) <=
                                         static_cast<double>(*limits.memory_bytes);
    };
    double best = std::numeric_limits<double>::infinity();
    for_each_partition(static_cast<int>(layers.size()), schedule.stages, [&](const Partition& each) {
      if (fits(each)) best = std::min(best, makespan(each));
    });
    const Partition found = shortest_partition(layers, schedule, limits).value();
    EXPECT_TRUE(fits(found));
    const double by_profile =
        makespan(partition_layers(PartitionBy::kProfile, layers, schedule, limits).value());
    EXPECT_LE(makespan(found), by_profile);
    if (const auto uniform = partition_layers(PartitionBy::kUniform, layers, schedule, limits))
      EXPECT_LE(makespan(found), makespan(*uniform));
    EXPECT_LE(makespan(found), 1.1 * best);
    best_of_all += makespan(found) <= best * (1 + 1e-9);
    shorter += makespan(found) < by_profile;
  }
  EXPECT_GT(best_of_all, rounds * 3 / 4);
  EXPECT_GT(shorter, rounds / 10);
}

TEST(Partition, ByNumberOrByParametersIsEven) {
  const Schedule schedule = schedule_of("GPipe", 3, 4);
  const auto cut = [&](PartitionBy by, const std::vector<LayerCost>& layers) {
    return partition_layers(by, layers, schedule).value();
  };
  EXPECT_THAT(cut(PartitionBy::kUniform, layers_of({1, 1, 1, 1, 1, 1, 1})), ElementsAre(0, 2, 4));
  EXPECT_THAT(cut(PartitionBy::kUniform, layers_of({9, 1, 1})), ElementsAre(0, 1, 2));
  for (int count = 3; count < 40; ++count) {
    const auto partition =
        cut(PartitionBy::kUniform, std::vector<LayerCost>(static_cast<std::size_t>(count)));
    const int sizes[] = {partition[1], partition[2] - partition[1], count - partition[2]};
    EXPECT_LE(std::ranges::max(sizes) - std::ranges::min(sizes), 1);
  }
  std::vector<LayerCost> layers(6);
  layers[0].parameter_bytes = 50;
  layers[4].parameter_bytes = 30;
  layers[5].parameter_bytes = 30;
  EXPECT_THAT(cut(PartitionBy::kParameters, layers).at(2), 5);
  // If the slowest stages of several splits are equal, the split with the most even other stages wins.
  EXPECT_THAT(cut(PartitionBy::kProfile, layers_of({10, 1, 1, 1, 1})), ElementsAre(0, 1, 3));
}

TEST(Partition, IsFoundFastForManyLayersWithALimit) {
  std::mt19937 random(5);
  const auto layers = any_layers(80, random);
  const Schedule schedule = schedule_of("Interleaved1F1B", 4, 8, 2);
  const auto free = partition_layers(PartitionBy::kProfile, layers, schedule).value();
  const double needed = std::ranges::max(memory_of_ranks(layers, free, schedule, 4));
  const auto limit = static_cast<std::int64_t>(0.97 * needed);
  const auto found = partition_layers(PartitionBy::kProfile, layers, schedule, {.memory_bytes = limit});
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_LE(std::ranges::max(memory_of_ranks(layers, *found, schedule, 4)), static_cast<double>(limit));
  EXPECT_LE(slowest(layers, *found), 1.3 * slowest(layers, free));
  EXPECT_FALSE(partition_layers(PartitionBy::kProfile, layers, schedule, {.memory_bytes = 100}));
}

TEST(Partition, RefusesImpossibleRequestsInOneLine) {
  const Schedule schedule = schedule_of("1F1B", 3, 4);
  auto layers = layers_of({1, 1});
  const auto refusal = [&](PartitionBy by, std::optional<std::int64_t> memory = {}) {
    const auto partition = partition_layers(by, layers, schedule, {.memory_bytes = memory});
    return partition ? "" : partition.error().message();
  };
  EXPECT_EQ(refusal(PartitionBy::kProfile),
            "2 layers cannot be split into 3 stages: each needs at least one");
  layers = layers_of({1, 1, 1, 1});
  for (LayerCost& layer : layers) layer.parameter_bytes = 100;
  EXPECT_EQ(
      refusal(PartitionBy::kProfile, 799),
      "799 bytes of memory a rank are too little for 4 layers in 3 stages by 1F1B: at least 800 are needed");
  EXPECT_EQ(refusal(PartitionBy::kProfile, 800), "");
  EXPECT_EQ(
      refusal(PartitionBy::kUniform, 799),
      "799 bytes of memory a rank are too little for the uniform split, where rank 2 needs 800: split by "
      "'profile' or 'parameters'");
  const auto wrong = [](const Partition& partition) {
    const Status good = check_partition(partition, 5, 3);
    return good ? "" : good.error().message();
  };
  EXPECT_EQ(wrong({0, 1, 4}), "");
  EXPECT_EQ(wrong({0, 1}), "the first layers of 2 stages are given, and there are 3 stages");
  EXPECT_THAT(wrong({1, 2, 3}), HasSubstr("stage 0 cannot begin with layer 1"));
  EXPECT_THAT(wrong({0, 2, 2}), HasSubstr("stage 2 cannot begin with layer 2"));
  EXPECT_THAT(wrong({0, 2, 5}), HasSubstr("stage 2 cannot begin with layer 5"));
  EXPECT_EQ(find_partition_name("profile"), PartitionBy::kProfile);
  EXPECT_EQ(find_partition_name("best"), std::nullopt);
}

}  // namespace
}  // namespace muster
