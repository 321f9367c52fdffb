#include <gmock/gmock.h>
#include <muster/data/elastic_sampler.h>

#include "tests/unit/runtime/sampler_shapes.h"

namespace muster {
namespace {

using testing::ElementsAre;

std::shared_ptr<const BatchSamplerBase> batches_of(std::int64_t size, std::int64_t batch_size,
                                                   std::uint64_t seed = 0) {
  const auto order = std::make_shared<RandomSampler>(size, RandomSamplerOptions{.seed = seed});
  return std::make_shared<BatchSampler>(order, batch_size, false);
}

std::vector<BatchPlan> plans_of(const std::shared_ptr<const BatchSamplerBase>& batches, int ranks,
                                std::int64_t epoch) {
  std::vector<BatchPlan> plans;
  for (int rank = 0; rank < ranks; ++rank) plans.push_back(ElasticSampler(batches, ranks, rank).plan(epoch));
  return plans;
}

std::vector<std::int64_t> counted(const BatchPlan& plan, std::int64_t number) {
  PlannedBatch batch = plan[number];
  batch.indices.resize(batch.indices.size() - static_cast<std::size_t>(batch.padding));
  return batch.indices;
}

// A value that differs from its neighbours'.
double value_of(std::int64_t example) {
  return 1.0 / static_cast<double>(example + 1);
}

double mean(std::span<const std::int64_t> examples) {
  double sum = 0;
  for (const std::int64_t example : examples) sum += value_of(example);
  return sum / static_cast<double>(examples.size());
}

TEST(ElasticSampler, TheRanksSharesMakeUpTheBatch) {
  int seen = 0;
  each_shape([&](const Shape& shape) {
    if (shape.ranks > std::min(shape.size, shape.batch_size)) return;
    const auto sampler = batches_of(shape.size, shape.batch_size, shape.seed);
    const IndexBatches batches = sampler->batches(3);
    const auto plans = plans_of(sampler, shape.ranks, 3);
    for (std::int64_t number = 0; number < batches.size(); ++number) {
      std::vector<std::int64_t> all;
      for (const BatchPlan& plan : plans) {
        ASSERT_EQ(plan.size(), batches.size());
        ASSERT_EQ(plan.consumed_before(number + 1), batches.offsets[static_cast<std::size_t>(number) + 1]);
        const auto mine = counted(plan, number);
        all.insert(all.end(), mine.begin(), mine.end());
        EXPECT_GE(std::ssize(mine), std::ssize(batches[number]) / shape.ranks);
        EXPECT_LE(std::ssize(mine), std::ssize(batches[number]) / shape.ranks + 1);
      }
      EXPECT_THAT(all, testing::ElementsAreArray(batches[number]));
      ++seen;
    }
  });
  EXPECT_GT(seen, 1000);
}

TEST(ElasticSampler, WeightedMeansOfRanksAreTheMeanOfTheBatch) {
  each_shape([](const Shape& shape) {
    if (shape.ranks > std::min(shape.size, shape.batch_size)) return;
    const auto sampler = batches_of(shape.size, shape.batch_size, shape.seed);
    const IndexBatches batches = sampler->batches(0);
    const auto plans = plans_of(sampler, shape.ranks, 0);
    for (std::int64_t number = 0; number < batches.size(); ++number) {
      double weights = 0;
      double means = 0;
      for (const BatchPlan& plan : plans) {
        const PlannedBatch batch = plan[number];
        weights += batch.weight;
        means += batch.weight * mean(batch.indices);  // includes padding, whose weight is 0
      }
      EXPECT_NEAR(weights, shape.ranks, 1e-12);
      EXPECT_NEAR(means / shape.ranks, mean(batches[number]), 1e-14);
    }
  });
}

TEST(ElasticSampler, EachExampleIsUsedOnceWhileTheNumberOfRanksChanges) {
  for (const std::int64_t size : {40, 97, 256, 1001}) {
    for (const std::int64_t batch_size : {4, 7, 10}) {
      const auto sampler = batches_of(size, batch_size, 11);
      const std::int64_t batches = sampler->batches(5).size();
      std::vector<std::int64_t> ledger;
      std::int64_t consumed = 0;
      for (const auto& [ranks, end] :
           {std::pair{4, batches / 3}, std::pair{2, batches / 2}, std::pair{3, batches}}) {
        for (; consumed < end; ++consumed) {
          for (const BatchPlan& plan : plans_of(sampler, ranks, 5)) {
            const auto mine = counted(plan, consumed);
            ledger.insert(ledger.end(), mine.begin(), mine.end());
          }
        }
      }
      EXPECT_EQ(sorted(ledger), up_to(size)) << "in batches of " << batch_size;
    }
  }
}

TEST(ElasticSampler, ARankWithoutAnExampleTakesPartWithWeightZero) {
  // 0 1 2 3 | 4 5
  const auto sampler = std::make_shared<BatchSampler>(std::make_shared<SequentialSampler>(6), 4, false);
  const auto plans = plans_of(sampler, 4, 0);
  const auto expect = [&](std::size_t rank, std::int64_t number, std::int64_t index, double weight,
                          std::int64_t padding) {
    const PlannedBatch batch = plans[rank][number];
    EXPECT_THAT(batch.indices, ElementsAre(index));
    EXPECT_EQ(batch.weight, weight);
    EXPECT_EQ(batch.padding, padding);
  };
  expect(0, 0, 0, 1, 0);
  expect(0, 1, 4, 2, 0);
  expect(3, 0, 3, 1, 0);
  expect(3, 1, 4, 0, 1);
  EXPECT_EQ(plans[3].consumed_before(1), 4);
  EXPECT_EQ(plans[3].consumed_before(2), 6);
}

class Malformed : public BatchSamplerBase {
 public:
  explicit Malformed(std::vector<std::int64_t> offsets) : offsets_(std::move(offsets)) {}
  IndexBatches batches(std::int64_t /*epoch*/) const override {
    return {.indices = {1, 2, 3}, .offsets = offsets_};
  }
  std::string description() const override { return "Malformed"; }

 private:
  std::vector<std::int64_t> offsets_;
};

TEST(ElasticSampler, RefusesMalformedBatches) {
  using Offsets = std::vector<std::int64_t>;
  for (const auto& offsets : {Offsets{}, {0}, {1, 3}, {0, 2}, {0, 2, 2, 3}, {0, 4, 3}, {0, 3, 4}}) {
    const ElasticSampler sampler(std::make_shared<Malformed>(offsets), 1, 0);
    EXPECT_THAT([&] { (void)sampler.plan(2); },
                refuses("Malformed: batches(2) gave offsets that do not rise from 0 to its 3 indices"))
        << testing::PrintToString(offsets);
  }
  EXPECT_EQ(ElasticSampler(std::make_shared<Malformed>(Offsets{0, 2, 3}), 1, 0).plan(0).size(), 2);
}

TEST(ElasticSampler, RefusesMoreRanksThanExamples) {
  EXPECT_THAT([] { ElasticSampler(batches_of(9, 3), 3, 3); },
              refuses("ElasticSampler: rank = 3 must be from 0 to 2, one of 3 ranks"));
  EXPECT_THAT([] { ElasticSampler(nullptr, 3, 1); }, refuses("batches = nullptr must be a batch sampler"));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(
        [&] { (void)ElasticSampler(batches_of(3, 64), 4, rank).plan(0); },
        refuses("ElasticSampler: num_replicas = 4 must be at most 3, the size of the largest batch of "
                "BatchSampler(RandomSampler(3, seed 0), batch_size 64), or some ranks get no example"));
  }
}

TEST(ElasticSampler, HasTheSameDescriptionOnAnyRankAndNumberOfRanks) {
  const auto sampler = batches_of(100, 10, 4);
  EXPECT_EQ(ElasticSampler(sampler, 4, 1).description(), ElasticSampler(sampler, 3, 2).description());
  EXPECT_EQ(ElasticSampler(sampler, 4, 1).description(),
            "ElasticSampler(BatchSampler(RandomSampler(100, seed 4), batch_size 10))");
}

}  // namespace
}  // namespace muster
