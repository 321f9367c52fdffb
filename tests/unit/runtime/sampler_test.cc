#include <array>
#include <cmath>
#include <future>
#include <gmock/gmock.h>
#include <limits>
#include <map>
#include <muster/data/distributed_sampler.h>
#include <muster/data/elastic_sampler.h>
#include <set>

#include "tests/unit/runtime/sampler_shapes.h"

namespace muster {
namespace {

using testing::ElementsAre;

TEST(Sampler, RefusesArgumentsThatGiveNoOrder) {
  EXPECT_THAT([] { SequentialSampler(0); },
              refuses("SequentialSampler: dataset_size = 0 must be at least 1"));
  EXPECT_THAT([] { RandomSampler(0); }, refuses("RandomSampler: dataset_size = 0 must be at least 1"));
  EXPECT_THAT([] { RandomSampler(5, {.num_samples = 0}); }, refuses("num_samples = 0 must be at least 1"));
  EXPECT_THAT([] { RandomSampler(5, {.replacement = true, .num_samples = -3}); },
              refuses("RandomSampler: num_samples = -3 must be at least 1"));
  EXPECT_THAT([] { SubsetRandomSampler({}); }, refuses("the number of indices = 0 must be at least 1"));
  EXPECT_THAT([] { SubsetRandomSampler({3, -1}); }, refuses("indices[1] = -1 must be at least 0"));
}

TEST(WeightedRandomSampler, RefusesWeightsThatCannotBeDrawnFrom) {
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
}

TEST(WeightedRandomSampler, DrawsFromMoreWeightsThanPythonCan) {
  // Two thirds of the weight are in the first half, and none is at its end.
  constexpr std::int64_t kHalf = 1 << 23;
  constexpr std::int64_t kDrawn = 60000;
  std::vector<double> weights(2 * kHalf + 2, 1);
  std::fill_n(weights.begin(), kHalf, 2.0);
  std::fill_n(weights.begin() + kHalf - 1000, 1000, 0.0);
  for (const bool replacement : {true, false}) {
    const WeightedRandomSampler sampler(weights, kDrawn, {.replacement = replacement, .seed = 5});
    const std::vector<std::int64_t> drawn = sampler.indices(0);
    ASSERT_EQ(std::ssize(drawn), kDrawn);
    // 40000 are expected; the standard deviation is 115.
    EXPECT_NEAR(std::ranges::count_if(drawn, [](auto index) { return index < kHalf; }), 40000, 600);
    EXPECT_NEAR(std::ranges::count_if(drawn, [](auto index) { return index < kHalf / 2; }), 20000, 600);
    EXPECT_TRUE(std::ranges::all_of(drawn, [&](auto index) {
      return index >= 0 && index < std::ssize(weights) && weights[static_cast<std::size_t>(index)] > 0;
    }));
    const std::set<std::int64_t> different(drawn.begin(), drawn.end());
    if (!replacement) EXPECT_EQ(std::ssize(different), kDrawn);
    EXPECT_EQ(sampler.indices(0), drawn);
    EXPECT_NE(sampler.indices(1), drawn);
  }
}

TEST(Sampler, DescribesItsOrder) {
  EXPECT_EQ(SequentialSampler(10).description(), "SequentialSampler(10)");
  EXPECT_EQ(RandomSampler(10, {.seed = 3}).description(), "RandomSampler(10, seed 3)");
  EXPECT_EQ(RandomSampler(10, {.replacement = true, .num_samples = 4}).description(),
            "RandomSampler(10, num_samples 4, replacement, seed 0)");
  EXPECT_NE(SubsetRandomSampler({1, 2}).description(), SubsetRandomSampler({2, 1}).description());
  EXPECT_NE(WeightedRandomSampler({1, 2}, 9).description(), WeightedRandomSampler({1, 3}, 9).description());
  EXPECT_NE(WeightedRandomSampler({1}, 1).description(),
            WeightedRandomSampler({1}, 1, {.replacement = false}).description());
  EXPECT_EQ(
      DistributedSampler(10, 4, 3, {.shuffle = false, .uneven_ranks = UnevenRanks::kKeep}).description(),
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

TEST(DistributedSampler, RefusesARankOutsideTheWorldAndOptionsThatLeaveNothing) {
  EXPECT_THAT([] { DistributedSampler(10, 2, 2); },
              refuses("DistributedSampler: rank = 2 must be from 0 to 1, one of 2 ranks"));
  EXPECT_THAT([] { DistributedSampler(10, 0, 0); }, refuses("num_replicas = 0 must be at least 1"));
  EXPECT_THAT([] { DistributedSampler(0, 2, 1); }, refuses("dataset_size = 0 must be at least 1"));
  EXPECT_THAT([] { DistributedSampler(nullptr, 2, 1); }, refuses("sampler = nullptr must be a sampler"));
  EXPECT_THAT([] { DistributedSampler(3, 4, 1, {.uneven_ranks = UnevenRanks::kDrop}); },
              refuses("num_replicas = 4 must be at most 3, or with UnevenRanks::kDrop nothing is left of "
                      "DistributedSampler(RandomSampler(3, seed 0), drop_last)"));
  EXPECT_THAT([] { (void)DistributedSampler(3, 2, 1).plan(0, 0); },
              refuses("batch_size = 0 must be at least 1"));
}

TEST(DistributedSampler, DropLastIsPyTorchsNameForKDrop) {
  for (int rank = 0; rank < 4; ++rank) {
    const DistributedSampler named(10, 4, rank, {.seed = 3, .drop_last = true});
    const DistributedSampler dropping(10, 4, rank, {.seed = 3, .uneven_ranks = UnevenRanks::kDrop});
    EXPECT_EQ(named.uneven_ranks(), UnevenRanks::kDrop);
    EXPECT_EQ(named.size(), 2);
    EXPECT_EQ(named.indices(1), dropping.indices(1));
    EXPECT_EQ(named.description(), dropping.description());
  }
  EXPECT_EQ(
      DistributedSampler(10, 4, 0, {.drop_last = true, .uneven_ranks = UnevenRanks::kDrop}).uneven_ranks(),
      UnevenRanks::kDrop);
  EXPECT_THAT([] { DistributedSampler(10, 4, 0, {.drop_last = true, .uneven_ranks = UnevenRanks::kKeep}); },
              refuses("DistributedSampler: uneven_ranks = UnevenRanks::kKeep must be "
                      "UnevenRanks::kDrop with drop_last, or left out"));
}

class Miscounting : public Sampler {
 public:
  std::int64_t size() const override { return 5; }
  std::vector<std::int64_t> indices(std::int64_t /*epoch*/) const override { return {1, 2, 3}; }
  std::string description() const override { return "Miscounting"; }
};

TEST(DistributedSampler, NamesASamplerThatReturnsFewerEntriesThanItsSize) {
  const DistributedSampler sampler(std::make_shared<Miscounting>(), 2, 0);
  EXPECT_THAT([&] { (void)sampler.indices(7); },
              refuses("Miscounting: indices(7) gave 3 entries, and its size() is 5"));
}

std::vector<std::int64_t> consumed(const BatchPlan& plan) {
  std::vector<std::int64_t> before;
  for (std::int64_t number = 0; number <= plan.size(); ++number)
    before.push_back(plan.consumed_before(number));
  return before;
}

std::vector<std::int64_t> indices(const BatchPlan& plan) {
  std::vector<std::int64_t> all;
  for (std::int64_t number = 0; number < plan.size(); ++number) {
    const auto batch = plan[number].indices;
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

DistributedSamplerOptions padded(bool pad) {
  return {.uneven_ranks = pad ? UnevenRanks::kPad : UnevenRanks::kKeep};
}

TEST(DistributedSampler, MarksTheEntriesThatAreRepeated) {
  // 0 1 2 3 4 | 0 1 2: the last place is padding on the ranks 1, 2 and 3.
  for (int rank = 0; rank < 4; ++rank) {
    const DistributedSampler sampler(5, 4, rank, {.shuffle = false});
    const BatchPlan plan = sampler.plan(0, 1);
    EXPECT_EQ(sampler.padding(), rank == 0 ? 0 : 1);
    ASSERT_EQ(plan.size(), 2);
    EXPECT_EQ(plan[0].padding, 0);
    EXPECT_EQ(plan[1].padding, sampler.padding());
    EXPECT_EQ(plan[1].weight, 1);
    EXPECT_THAT(consumed(plan), ElementsAre(0, 4, 8));
  }
  // A dropped last batch takes its padding with it.
  EXPECT_EQ(DistributedSampler(5, 4, 3).plan(0, 2)[0].padding, 1);
  EXPECT_EQ(DistributedSampler(13, 4, 3).plan(0, 3, true)[0].padding, 0);
}

TEST(DistributedSampler, WithoutPaddingEachExampleIsUsedOnceAndWeightedMeansAreExact) {
  each_shape([](const Shape& shape) {
    std::vector<std::int64_t> all;
    std::map<std::int64_t, double> weighed;  // by global offset: the sum of weight * 1 over the ranks
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const DistributedSampler sampler(shape.size, shape.ranks, rank,
                                       {.seed = shape.seed, .uneven_ranks = UnevenRanks::kKeep});
      const BatchPlan plan = sampler.plan(2, shape.batch_size);
      EXPECT_EQ(sampler.padding(), 0);
      EXPECT_EQ(indices(plan), sampler.indices(2));
      EXPECT_LE(shape.size / shape.ranks, sampler.size());
      EXPECT_GE(shape.size / shape.ranks + 1, sampler.size());
      for (std::int64_t number = 0; number < plan.size(); ++number) {
        const std::int64_t of_all = plan.consumed_before(number + 1) - plan.consumed_before(number);
        const PlannedBatch batch = plan[number];
        EXPECT_EQ(batch.padding, 0);
        EXPECT_DOUBLE_EQ(batch.weight * static_cast<double>(of_all),
                         static_cast<double>(std::ssize(batch.indices) * shape.ranks));
        weighed[number] += batch.weight;
      }
      const auto mine = indices(plan);
      all.insert(all.end(), mine.begin(), mine.end());
    }
    ASSERT_EQ(sorted(all), up_to(shape.size));
    for (const auto& [number, sum] : weighed) EXPECT_NEAR(sum, shape.ranks, 1e-12) << number;
  });
}

TEST(DistributedSampler, PlansWithDropLastHaveOnlyFullBatches) {
  each_shape([](const Shape& shape) {
    for (const bool pad : {false, true}) {
      for (int rank = 0; rank < shape.ranks; ++rank) {
        const DistributedSampler sampler(shape.size, shape.ranks, rank, padded(pad));
        const BatchPlan plan = sampler.plan(0, shape.batch_size, true);
        const std::int64_t whole =
            pad ? (shape.size + shape.ranks - 1) / shape.ranks * shape.ranks : shape.size;
        EXPECT_EQ(plan.size(), whole / (shape.batch_size * shape.ranks));
        for (std::int64_t number = 0; number < plan.size(); ++number) {
          EXPECT_EQ(std::ssize(plan[number].indices), shape.batch_size);
          EXPECT_EQ(plan[number].weight, 1);
        }
      }
    }
  });
}

TEST(DistributedSampler, ABatchMayBeLargerThanTheDataset) {
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  for (const bool pad : {false, true}) {
    for (int rank = 0; rank < 3; ++rank) {
      const DistributedSampler sampler(10, 3, rank, padded(pad));
      const BatchPlan plan = sampler.plan(0, kAll);
      EXPECT_EQ(std::ssize(plan[0].indices), sampler.size());
      EXPECT_THAT(consumed(plan), ElementsAre(0, pad ? 12 : 10));
      EXPECT_EQ(sampler.plan(0, kAll, true).size(), 0);
    }
  }
}

// From every place on, the rest is cut as if the order began there.
TEST(DistributedSampler, APlanFromAPlaceOnHasEachRemainingExampleOnce) {
  for (const UnevenRanks uneven : {UnevenRanks::kPad, UnevenRanks::kKeep, UnevenRanks::kDrop}) {
    for (std::int64_t first = 0; first < 23; ++first) {
      std::vector<std::int64_t> left;
      for (int rank = 0; rank < 3; ++rank) {
        const DistributedSampler sampler(23, 3, rank, {.seed = 4, .uneven_ranks = uneven});
        const BatchPlan plan = sampler.plan(1, 4, false, first);
        EXPECT_EQ(plan.consumed_before(0), first);
        const auto order = RandomSampler(23, {.seed = 4}).indices(1);
        for (std::int64_t number = 0; number < plan.size(); ++number) {
          const PlannedBatch batch = plan[number];
          for (std::int64_t i = 0; i < std::ssize(batch.places) - batch.padding; ++i) {
            const std::int64_t place = batch.places[static_cast<std::size_t>(i)];
            EXPECT_GE(place, plan.consumed_before(number));
            EXPECT_LT(place, plan.consumed_before(number + 1));
            EXPECT_EQ(batch.indices[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(place)]);
            left.push_back(place);
          }
        }
      }
      const std::int64_t dropped = uneven == UnevenRanks::kDrop ? (23 - first) % 3 : 0;
      std::vector<std::int64_t> expected = up_to(23 - dropped);
      expected.erase(expected.begin(), expected.begin() + first);
      EXPECT_EQ(sorted(left), expected) << first;
    }
  }
}

TEST(BatchPlan, FindsTheBatchOfAPlaceInTheEpoch) {
  const BatchPlan plan = DistributedSampler(10, 2, 1, {.uneven_ranks = UnevenRanks::kKeep}).plan(0, 2);
  EXPECT_THAT(consumed(plan), ElementsAre(0, 4, 8, 10));
  EXPECT_EQ(plan.batch_at(0), 0);
  EXPECT_EQ(plan.batch_at(8), 2);
  EXPECT_EQ(plan.batch_at(10), plan.size());
  EXPECT_EQ(plan.batch_at(5), std::nullopt);
  EXPECT_EQ(plan.batch_at(12), std::nullopt);
}

// A sampler that returns its order only as a list.
class Listed : public Sampler {
 public:
  explicit Listed(std::vector<std::int64_t> order) : order_(std::move(order)) {}
  std::int64_t size() const override { return std::ssize(order_); }
  std::vector<std::int64_t> indices(std::int64_t /*epoch*/) const override { return order_; }
  std::string description() const override { return "Listed"; }

 private:
  std::vector<std::int64_t> order_;
};

TEST(BatchPlan, PlacesCountTheOrderOfAllRanks) {
  each_shape([](const Shape& shape) {
    std::vector<std::int64_t> order = up_to(shape.size);
    std::ranges::reverse(order);
    const auto listed = std::make_shared<Listed>(order);
    const bool elastic = shape.ranks <= std::min(shape.size, shape.batch_size);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      std::vector plans = {DistributedSampler(listed, shape.ranks, rank).plan(0, shape.batch_size)};
      if (elastic) {
        const auto batches = std::make_shared<BatchSampler>(listed, shape.batch_size, false);
        plans.push_back(ElasticSampler(batches, shape.ranks, rank).plan(0));
      }
      for (const BatchPlan& plan : plans) {
        for (std::int64_t number = 0; number < plan.size(); ++number) {
          const PlannedBatch batch = plan[number];
          ASSERT_EQ(batch.places.size(), batch.indices.size());
          for (std::size_t i = 0; i < batch.places.size(); ++i) {
            ASSERT_EQ(batch.indices[i], order[static_cast<std::size_t>(batch.places[i] % shape.size)]);
            ASSERT_GE(batch.places[i], plan.consumed_before(number));
            ASSERT_LT(batch.places[i], plan.consumed_before(number + 1));
          }
        }
      }
    }
  });
}

TEST(ComputedSampler, IsCutLikeAListOfTheSameOrder) {
  each_shape([](const Shape& shape) {
    const auto each = std::make_shared<KeyedRandomSampler>(shape.size, shape.seed);
    const auto listed = std::make_shared<Listed>(each->indices(3));
    const auto same = [](const BatchPlan& one, const BatchPlan& other) {
      ASSERT_EQ(consumed(one), consumed(other));
      for (std::int64_t number = 0; number < one.size(); ++number) {
        const PlannedBatch left = one[number];
        const PlannedBatch right = other[number];
        ASSERT_EQ(left.indices, right.indices);
        ASSERT_EQ(left.places, right.places);
        ASSERT_EQ(left.padding, right.padding);
        ASSERT_EQ(left.weight, right.weight);
      }
    };
    for (int rank = 0; rank < shape.ranks; ++rank) {
      for (const UnevenRanks uneven : {UnevenRanks::kPad, UnevenRanks::kKeep}) {
        same(DistributedSampler(each, shape.ranks, rank, uneven).plan(3, shape.batch_size),
             DistributedSampler(listed, shape.ranks, rank, uneven).plan(3, shape.batch_size));
      }
      if (shape.ranks > std::min(shape.size, shape.batch_size)) continue;
      for (const bool drop_last : {false, true}) {
        if (drop_last && shape.batch_size > shape.size) continue;
        const auto cut = [&](const std::shared_ptr<const Sampler>& order) {
          return ElasticSampler(std::make_shared<BatchSampler>(order, shape.batch_size, drop_last),
                                shape.ranks, rank)
              .plan(3);
        };
        same(cut(each), cut(listed));
      }
    }
  });
}

TEST(KeyedRandomSampler, HasEachIndexOnceForEverySize) {
  for (std::int64_t size = 1; size <= 1200; ++size)
    ASSERT_EQ(sorted(KeyedRandomSampler(size, static_cast<std::uint64_t>(size)).indices(size % 5)),
              up_to(size))
        << size;
  for (const std::int64_t size : {4095, 4096, 4097, 65536, 99991, 1000000})
    for (const std::uint64_t seed : {std::uint64_t{0}, ~std::uint64_t{0}})
      ASSERT_EQ(sorted(KeyedRandomSampler(size, seed).indices(1)), up_to(size)) << size << " seed " << seed;
}

TEST(KeyedRandomSampler, AHugeDatasetsIndicesAreInRangeAndUnique) {
  for (const std::int64_t size :
       {std::int64_t{1'000'000'007}, (std::int64_t{1} << 40) + 1, std::numeric_limits<std::int64_t>::max()}) {
    const KeyedRandomSampler sampler(size, 5);
    std::vector<std::int64_t> seen;
    for (std::int64_t i = 0; i < 20000; ++i) {
      seen.push_back(sampler.index(2, i));
      seen.push_back(sampler.index(2, size - 1 - i));
    }
    std::ranges::sort(seen);
    EXPECT_GE(seen.front(), 0);
    EXPECT_LT(seen.back(), size);
    EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end()) << size;
  }
}

// Chi-square over 100 cells (the index at a place, and the difference of neighbours). With 99 degrees of
// freedom it exceeds 160 once in 10,000 cases.
TEST(KeyedRandomSampler, OrdersLookRandom) {
  constexpr std::int64_t kSize = 100;
  constexpr int kOrders = 20000;
  std::array<std::array<int, kSize>, 2> at_a_place{};
  std::array<int, kSize> differences{};
  for (int seed = 0; seed < kOrders; ++seed) {
    const KeyedRandomSampler sampler(kSize, static_cast<std::uint64_t>(seed));
    const std::int64_t first = sampler.index(0, 0);
    const std::int64_t second = sampler.index(0, 1);
    ++at_a_place[0][static_cast<std::size_t>(first)];
    ++at_a_place[1][static_cast<std::size_t>(second)];
    ++differences[static_cast<std::size_t>((second - first + kSize) % kSize)];
  }
  const auto chi_square = [](const auto& cells, std::size_t from) {
    const double expected = static_cast<double>(kOrders) / static_cast<double>(cells.size() - from);
    double sum = 0;
    for (std::size_t i = from; i < cells.size(); ++i)
      sum += (cells[i] - expected) * (cells[i] - expected) / expected;
    return sum;
  };
  EXPECT_LT(chi_square(at_a_place[0], 0), 160);
  EXPECT_LT(chi_square(at_a_place[1], 0), 160);
  EXPECT_EQ(differences[0], 0) << "no index twice";
  EXPECT_LT(chi_square(differences, 1), 160);
}

TEST(KeyedRandomSampler, EpochsAndSeedsDiffer) {
  const KeyedRandomSampler sampler(1000, 3);
  EXPECT_NE(sampler.indices(0), sampler.indices(1));
  EXPECT_NE(sampler.indices(0), KeyedRandomSampler(1000, 4).indices(0));
  EXPECT_EQ(sampler.indices(2), KeyedRandomSampler(1000, 3).indices(2));
  EXPECT_EQ(sampler.description(), "KeyedRandomSampler(1000, seed 3)");
  EXPECT_THAT([] { KeyedRandomSampler(0); },
              refuses("KeyedRandomSampler: dataset_size = 0 must be at least 1"));
}

TEST(DistributedSampler, IsNotCutASecondTime) {
  const auto part = std::make_shared<DistributedSampler>(10, 2, 1);
  const std::string said =
      "sampler = DistributedSampler(RandomSampler(10, seed 0)) is already one rank's part";
  EXPECT_THAT([&] { DistributedSampler(part, 2, 1); }, refuses("DistributedSampler: " + said));
  EXPECT_THAT([&] { BatchSampler(part, 2, false); }, refuses("BatchSampler: " + said));
}

}  // namespace
}  // namespace muster
