#include <gmock/gmock.h>
#include <muster/data/batch_sampler.h>
#include <muster/data/elastic_sampler.h>
#include <set>

#include "tests/unit/runtime/sampler_shapes.h"

namespace muster {
namespace {

using testing::ElementsAre;
using Options = BucketBatchSamplerOptions;

// Lengths like those of sentences: mostly short, some long.
std::vector<std::int64_t> lengths_of(std::int64_t size) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t spread = i * 7919 % 97;
    lengths.push_back(1 + spread * spread % 60);
  }
  return lengths;
}

std::int64_t longest(std::span<const std::int64_t> batch, const std::vector<std::int64_t>& lengths) {
  std::int64_t most = 0;
  for (const std::int64_t example : batch) most = std::max(most, lengths[static_cast<std::size_t>(example)]);
  return most;
}

// The share of padding once each batch is padded to its longest example.
double waste(const IndexBatches& batches, const std::vector<std::int64_t>& lengths) {
  std::int64_t room = 0;
  for (std::int64_t number = 0; number < batches.size(); ++number) {
    room += std::ssize(batches[number]) * longest(batches[number], lengths);
  }
  const auto used = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  return 1 - static_cast<double>(used) / static_cast<double>(room);
}

TEST(BatchSampler, CutsTheOrder) {
  const auto order = std::make_shared<SequentialSampler>(7);
  const BatchSampler all(order, 3, false);
  EXPECT_EQ(all.size(), 3);
  EXPECT_THAT(all.batches(0).offsets, ElementsAre(0, 3, 6, 7));
  EXPECT_EQ(all.batches(0).indices, up_to(7));
  const BatchSampler full(order, 3, true);
  EXPECT_EQ(full.size(), 2);
  EXPECT_THAT(full.batches(0).offsets, ElementsAre(0, 3, 6));
  EXPECT_EQ(full.batches(0).indices, up_to(6));
  EXPECT_EQ(full.description(), "BatchSampler(SequentialSampler(7), batch_size 3, drop_last)");
}

TEST(BatchSampler, RefusesArgumentsThatGiveNoBatch) {
  const auto order = std::make_shared<SequentialSampler>(7);
  EXPECT_THAT([&] { BatchSampler(order, 0, false); }, refuses("batch_size = 0 must be at least 1"));
  EXPECT_THAT([&] { BatchSampler(nullptr, 1, false); }, refuses("sampler = nullptr must be a sampler"));
  EXPECT_THAT([&] { BatchSampler(order, 8, true); },
              refuses("BatchSampler: batch_size = 8 must be at most 7, or with drop_last nothing is left of "
                      "SequentialSampler(7)"));
}

TEST(BucketBatchSampler, HasEachExampleOnceWithinItsLimits) {
  each_shape([](const Shape& shape) {
    const auto lengths = lengths_of(shape.size);
    const std::int64_t tokens = 60 * shape.batch_size;
    for (Options options : {Options{.batch_size = shape.batch_size}, Options{.max_tokens = tokens},
                            Options{.batch_size = shape.batch_size, .max_tokens = 70}}) {
      options.seed = shape.seed;
      options.window_batches = 1 + shape.ranks;
      const IndexBatches batches = BucketBatchSampler(lengths, options).batches(4);
      ASSERT_EQ(sorted(batches.indices), up_to(shape.size));
      for (std::int64_t number = 0; number < batches.size(); ++number) {
        const auto batch = batches[number];
        ASSERT_FALSE(batch.empty());
        EXPECT_EQ(lengths[static_cast<std::size_t>(batch.front())], longest(batch, lengths));
        if (options.batch_size) EXPECT_LE(std::ssize(batch), *options.batch_size);
        if (options.max_tokens) EXPECT_LE(std::ssize(batch) * longest(batch, lengths), *options.max_tokens);
      }
    }
  });
}

TEST(BucketBatchSampler, AllBatchesButOneAreFull) {
  const BucketBatchSampler sampler(lengths_of(1003), {.batch_size = 10, .window_batches = 7});
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    const IndexBatches batches = sampler.batches(epoch);
    ASSERT_EQ(batches.size(), 101);
    int small = 0;
    for (std::int64_t number = 0; number < batches.size(); ++number) {
      if (std::ssize(batches[number]) != 10) ++small;
    }
    EXPECT_EQ(small, 1);
  }
}

TEST(BucketBatchSampler, IsAFunctionOfSeedAndEpoch) {
  const auto lengths = lengths_of(500);
  const auto batches = [&](std::uint64_t seed, std::int64_t epoch) {
    const IndexBatches all = BucketBatchSampler(lengths, {.batch_size = 8, .seed = seed}).batches(epoch);
    return std::pair(all.indices, all.offsets);
  };
  EXPECT_EQ(batches(1, 2), batches(1, 2));
  EXPECT_NE(batches(1, 2), batches(1, 3));
  EXPECT_NE(batches(1, 2), batches(2, 2));
}

TEST(BucketBatchSampler, WastesLittleOnPaddingAndMixesEqualLengths) {
  const auto lengths = lengths_of(6000);
  const auto order = std::make_shared<RandomSampler>(6000);
  const double mixed = waste(BatchSampler(order, 32, false).batches(0), lengths);
  const double bucketed = waste(BucketBatchSampler(lengths, {.batch_size = 32}).batches(0), lengths);
  EXPECT_GT(mixed, 0.4);
  EXPECT_LT(bucketed, 0.03);
  // Equal lengths are not sorted: neighbours in a batch are not neighbours in the dataset.
  const std::vector<std::int64_t> equal(1000, 5);
  const IndexBatches batches = BucketBatchSampler(equal, {.batch_size = 10}).batches(0);
  int neighbours = 0;
  for (std::size_t i = 1; i < batches.indices.size(); ++i) {
    if (batches.indices[i] == batches.indices[i - 1] + 1) ++neighbours;
  }
  EXPECT_LT(neighbours, 10);
}

TEST(BucketBatchSampler, ShufflesBatchesOverTheEpoch) {
  const auto lengths = lengths_of(2000);
  const IndexBatches batches = BucketBatchSampler(lengths, {.batch_size = 10}).batches(0);
  std::set<std::int64_t> begin;  // in one window, unshuffled, these ten would all be the longest
  for (std::int64_t number = 0; number < 10; ++number) begin.insert(longest(batches[number], lengths));
  EXPECT_GT(begin.size(), 4u);
  // Not shuffled: one window after the other, each with its longest example first.
  const IndexBatches still =
      BucketBatchSampler({3, 1, 2, 5, 6, 4}, {.batch_size = 1, .window_batches = 3, .shuffle = false})
          .batches(9);
  EXPECT_THAT(still.indices, ElementsAre(0, 2, 1, 4, 3, 5));
}

TEST(BucketBatchSampler, WithMultipleOfTheRanksNoRankExceedsItsShareOfTheTokens) {
  const auto lengths = lengths_of(3000);
  constexpr std::int64_t kTokensOfARank = 300;
  for (const int ranks : {2, 3, 4}) {
    const auto batches = std::make_shared<BucketBatchSampler>(
        lengths, Options{.max_tokens = kTokensOfARank * ranks, .multiple_of = ranks, .window_batches = 20});
    int uneven = 0;
    const IndexBatches all = batches->batches(1);
    for (std::int64_t number = 0; number < all.size(); ++number) {
      if (std::ssize(all[number]) % ranks != 0) ++uneven;
    }
    EXPECT_LE(uneven, 1);
    for (int rank = 0; rank < ranks; ++rank) {
      const BatchPlan plan = ElasticSampler(batches, ranks, rank).plan(1);
      for (std::int64_t number = 0; number < plan.size(); ++number) {
        const auto mine = plan[number].indices;
        EXPECT_LE(std::ssize(mine) * longest(mine, lengths), kTokensOfARank);
      }
    }
  }
}

TEST(BucketBatchSampler, RefusesArgumentsThatDoNotFit) {
  const auto with = [](const std::vector<std::int64_t>& lengths, Options options) {
    return [=] { BucketBatchSampler(lengths, options); };
  };
  EXPECT_THAT(with({1, 2}, {}),
              refuses("BucketBatchSampler: batch_size = none must be given, or max_tokens"));
  EXPECT_THAT(with({}, {.batch_size = 1}), refuses("the number of lengths = 0 must be at least 1"));
  EXPECT_THAT(with({1, 2}, {.batch_size = 0}), refuses("batch_size = 0 must be at least 1"));
  EXPECT_THAT(with({1, -2}, {.batch_size = 1}), refuses("lengths[1] = -2 must be at least 0"));
  EXPECT_THAT(with({1, 9, 3}, {.max_tokens = 8}), refuses("lengths[1] = 9 must be at most max_tokens, 8"));
  EXPECT_THAT(with({0, 0}, {.max_tokens = 0}), refuses("max_tokens = 0 must be at least 1"));
  EXPECT_THAT(with({1}, {.batch_size = 6, .multiple_of = 4}),
              refuses("batch_size = 6 must be a multiple of 4"));
  EXPECT_THAT(with({1}, {.batch_size = 6, .multiple_of = 0}), refuses("multiple_of = 0 must be at least 1"));
  EXPECT_THAT(with({1}, {.batch_size = 6, .window_batches = 0}),
              refuses("window_batches = 0 must be at least 1"));
}

TEST(BucketBatchSampler, DescribesItsOrder) {
  const auto words = [](const std::vector<std::int64_t>& lengths, Options options) {
    return BucketBatchSampler(lengths, options).description();
  };
  EXPECT_NE(words({1, 2}, {.batch_size = 2}), words({2, 1}, {.batch_size = 2}));
  EXPECT_NE(words({1, 2}, {.batch_size = 2}), words({1, 2}, {.max_tokens = 2}));
  EXPECT_THAT(words({1, 2}, {.max_tokens = 8, .shuffle = false}),
              testing::MatchesRegex("BucketBatchSampler\\(2 lengths of digest [0-9a-f]{16}, max_tokens 8, "
                                    "multiple_of 1, window_batches 100, not shuffled\\)"));
}

}  // namespace
}  // namespace muster
