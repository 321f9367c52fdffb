#include <array>
#include <cmath>
#include <future>
#include <gmock/gmock.h>
#include <limits>
#include <map>
#include <muster/distributed_sampler.h>

#include "tests/unit/runtime/sampler_shapes.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Sampler, RefusesWhatGivesNoOrder) {
  EXPECT_THAT([] { SequentialSampler(0); },
              refuses("SequentialSampler: dataset_size = 0 must be at least 1"));
  EXPECT_THAT([] { RandomSampler(0); }, refuses("RandomSampler: dataset_size = 0 must be at least 1"));
  EXPECT_THAT([] { RandomSampler(5, {.num_samples = 0}); }, refuses("num_samples = 0 must be at least 1"));
  EXPECT_THAT([] { RandomSampler(5, {.replacement = true, .num_samples = -3}); },
              refuses("RandomSampler: num_samples = -3 must be at least 1"));
  EXPECT_THAT([] { SubsetRandomSampler({}); }, refuses("the number of indices = 0 must be at least 1"));
  EXPECT_THAT([] { SubsetRandomSampler({3, -1}); }, refuses("indices[1] = -1 must be at least 0"));
}

TEST(WeightedRandomSampler, RefusesWeightsThatNothingCanBeDrawnWith) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT([] { WeightedRandomSampler({1, 2}, 0); }, refuses("num_samples = 0 must be at least 1"));
  EXPECT_THAT([] { WeightedRandomSampler({}, 1); }, refuses("the number of weights above 0 = 0 must be"));
  EXPECT_THAT([] { WeightedRandomSampler({0, 0}, 1); }, refuses("the number of weights above 0 = 0 must be"));
  EXPECT_THAT([] { WeightedRandomSampler({1, -0.5}, 1); },
              refuses("weights[1] = -0.5 must be a number that"));
  EXPECT_THAT([] { WeightedRandomSampler({kInfinity, 1}, 1); }, refuses("weights[0] = inf must be"));
  EXPECT_THAT([] { WeightedRandomSampler({std::nan("")}, 1); }, refuses("weights[0] = nan must be"));
  EXPECT_THAT([] { WeightedRandomSampler({1e308, 1e308}, 1); },
              refuses("the sum of the weights = inf must be finite"));
  EXPECT_THAT(
      [] { WeightedRandomSampler({1, 0, 2}, 3, {.replacement = false}); },
      refuses("num_samples = 3 must be at most 2, the number of weights above 0, without replacement"));
  EXPECT_THAT([] { WeightedRandomSampler(std::vector<double>((1 << 24) + 1, 1), 1); },
              refuses("the number of weights = 16777217 must be at most 16777216"));
}

TEST(Sampler, SaysItsOrderInWords) {
  EXPECT_EQ(SequentialSampler(10).description(), "SequentialSampler(10)");
  EXPECT_EQ(RandomSampler(10, {.seed = 3}).description(), "RandomSampler(10, seed 3)");
  EXPECT_EQ(RandomSampler(10, {.replacement = true, .num_samples = 4}).description(),
            "RandomSampler(10, num_samples 4, replacement, seed 0)");
  EXPECT_NE(SubsetRandomSampler({1, 2}).description(), SubsetRandomSampler({2, 1}).description());
  EXPECT_NE(WeightedRandomSampler({1, 2}, 9).description(), WeightedRandomSampler({1, 3}, 9).description());
  EXPECT_NE(WeightedRandomSampler({1}, 1).description(),
            WeightedRandomSampler({1}, 1, {.replacement = false}).description());
  EXPECT_EQ(DistributedSampler(10, 4, 3, {.shuffle = false, .pad = false}).description(),
            "DistributedSampler(SequentialSampler(10), not padded)");
}

TEST(Sampler, GivesTheSameToSeveralThreadsAtOnce) {
  const RandomSampler random(500, {.seed = 4});
  const WeightedRandomSampler weighted(std::vector<double>(500, 1), 500, {.replacement = false, .seed = 4});
  const auto drawn = [&](std::int64_t epoch) {
    return std::pair(random.indices(epoch), weighted.indices(epoch));
  };
  const std::array expected = {drawn(0), drawn(1), drawn(2)};
  std::vector<std::future<bool>> asked;
  for (int thread = 0; thread < 4; ++thread) {
    asked.push_back(std::async(std::launch::async, [&] {
      bool same = true;
      for (std::size_t time = 0; time < 60; ++time) {
        same = same && drawn(static_cast<std::int64_t>(time % 3)) == expected.at(time % 3);
      }
      return same;
    }));
  }
  for (auto& answer : asked) EXPECT_TRUE(answer.get());
}

TEST(DistributedSampler, RanksTogetherCoverEachExampleOnce) {
  std::vector<std::int64_t> all;
  for (int rank = 0; rank < 4; ++rank) {
    const auto mine = DistributedSampler(100, 4, rank, {.seed = 3}).indices(5);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  EXPECT_EQ(sorted(all), up_to(100));
}

TEST(DistributedSampler, RefusesARankOutsideOfTheWorldAndWhatLeavesNothing) {
  EXPECT_THAT([] { DistributedSampler(10, 2, 2); },
              refuses("DistributedSampler: rank = 2 must be from 0 to 1, one of 2 ranks"));
  EXPECT_THAT([] { DistributedSampler(10, 0, 0); }, refuses("num_replicas = 0 must be at least 1"));
  EXPECT_THAT([] { DistributedSampler(0, 2, 1); }, refuses("dataset_size = 0 must be at least 1"));
  EXPECT_THAT([] { DistributedSampler(nullptr, 2, 1); }, refuses("sampler = nullptr must be a sampler"));
  EXPECT_THAT([] { DistributedSampler(3, 4, 1, {.drop_last = true}); },
              refuses("num_replicas = 4 must be at most 3, or with drop_last nothing is left of "
                      "DistributedSampler(RandomSampler(3, seed 0), drop_last)"));
  EXPECT_THAT([] { (void)DistributedSampler(3, 2, 1).plan(0, 0); },
              refuses("batch_size = 0 must be at least 1"));
}

class Miscounting : public Sampler {
 public:
  std::int64_t size() const override { return 5; }
  std::vector<std::int64_t> indices(std::int64_t /*epoch*/) const override { return {1, 2, 3}; }
  std::string description() const override { return "Miscounting"; }
};

TEST(DistributedSampler, NamesASamplerThatGivesFewerThanItSays) {
  const DistributedSampler sampler(std::make_shared<Miscounting>(), 2, 0);
  EXPECT_THAT([&] { (void)sampler.indices(7); },
              refuses("Miscounting: indices(7) gave 3 entries, and its size() is 5"));
}

TEST(DistributedSampler, MarksTheEntriesThatAreRepeated) {
  // 0 1 2 3 4 | 0 1 2: the last place is padding on the ranks 1, 2 and 3.
  for (int rank = 0; rank < 4; ++rank) {
    const DistributedSampler sampler(5, 4, rank, {.shuffle = false});
    const BatchPlan plan = sampler.plan(0, 1);
    EXPECT_EQ(sampler.padding(), rank == 0 ? 0 : 1);
    ASSERT_EQ(plan.size(), 2);
    EXPECT_EQ(plan.padding_of(0), 0);
    EXPECT_EQ(plan.padding_of(1), sampler.padding());
    EXPECT_EQ(plan.weight_of(1), 1);
    EXPECT_THAT(plan.global_offsets, ElementsAre(0, 4, 8));
  }
  // A dropped last batch takes its padding with it.
  EXPECT_THAT(DistributedSampler(5, 4, 3).plan(0, 2).padding, ElementsAre(1));
  EXPECT_EQ(DistributedSampler(13, 4, 3).plan(0, 3, true).padding_of(0), 0);
}

TEST(DistributedSampler, UnpaddedTakesEachExampleOnceAndMeansAreOfAll) {
  each_shape([](const Shape& shape) {
    std::vector<std::int64_t> all;
    std::map<std::int64_t, double> weighed;  // by global offset: the sum of weight * 1 over the ranks
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const DistributedSampler sampler(shape.size, shape.ranks, rank, {.seed = shape.seed, .pad = false});
      const BatchPlan plan = sampler.plan(2, shape.batch_size);
      EXPECT_EQ(sampler.padding(), 0);
      EXPECT_THAT(plan.padding, IsEmpty());
      EXPECT_EQ(plan.indices, sampler.indices(2));
      EXPECT_LE(shape.size / shape.ranks, sampler.size());
      EXPECT_GE(shape.size / shape.ranks + 1, sampler.size());
      for (std::int64_t number = 0; number < plan.size(); ++number) {
        const auto place = static_cast<std::size_t>(number);
        const std::int64_t of_all = plan.global_offsets[place + 1] - plan.global_offsets[place];
        EXPECT_DOUBLE_EQ(plan.weight_of(number) * static_cast<double>(of_all),
                         static_cast<double>(std::ssize(plan[number]) * shape.ranks));
        weighed[number] += plan.weight_of(number);
      }
      all.insert(all.end(), plan.indices.begin(), plan.indices.end());
    }
    ASSERT_EQ(sorted(all), up_to(shape.size));
    for (const auto& [number, sum] : weighed) EXPECT_NEAR(sum, shape.ranks, 1e-12) << number;
  });
}

TEST(DistributedSampler, PlansWithDropLastHaveOnlyFullBatches) {
  each_shape([](const Shape& shape) {
    for (const bool pad : {false, true}) {
      for (int rank = 0; rank < shape.ranks; ++rank) {
        const DistributedSampler sampler(shape.size, shape.ranks, rank, {.pad = pad});
        const BatchPlan plan = sampler.plan(0, shape.batch_size, true);
        const std::int64_t whole =
            pad ? (shape.size + shape.ranks - 1) / shape.ranks * shape.ranks : shape.size;
        EXPECT_EQ(plan.size(), whole / (shape.batch_size * shape.ranks));
        EXPECT_EQ(std::ssize(plan.indices), plan.size() * shape.batch_size);
        EXPECT_THAT(plan.weights, testing::Each(1.0));
      }
    }
  });
}

TEST(DistributedSampler, ABatchMayBeLargerThanAllThereIs) {
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  for (const bool pad : {false, true}) {
    for (int rank = 0; rank < 3; ++rank) {
      const DistributedSampler sampler(10, 3, rank, {.pad = pad});
      const BatchPlan plan = sampler.plan(0, kAll);
      EXPECT_THAT(plan.offsets, ElementsAre(0, sampler.size()));
      EXPECT_THAT(plan.global_offsets, ElementsAre(0, pad ? 12 : 10));
      EXPECT_EQ(sampler.plan(0, kAll, true).size(), 0);
    }
  }
}

TEST(BatchPlan, FindsTheBatchOfAPlaceInTheEpoch) {
  const BatchPlan plan = DistributedSampler(10, 2, 1, {.pad = false}).plan(0, 2);
  EXPECT_THAT(plan.global_offsets, ElementsAre(0, 4, 8, 10));
  EXPECT_EQ(plan.batch_at(0), 0);
  EXPECT_EQ(plan.batch_at(8), 2);
  EXPECT_EQ(plan.batch_at(10), plan.size());
  EXPECT_EQ(plan.batch_at(5), std::nullopt);
  EXPECT_EQ(plan.batch_at(12), std::nullopt);
}

}  // namespace
}  // namespace muster
