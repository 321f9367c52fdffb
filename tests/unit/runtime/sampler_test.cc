#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <muster/sampler.h>
#include <sstream>

namespace muster {
namespace {

std::uint64_t checksum(const std::vector<std::int64_t>& indices) {
  std::uint64_t value = 14695981039346656037U;
  for (const std::int64_t index : indices)
    value = (value ^ static_cast<std::uint64_t>(index)) * 1099511628211U;
  return value;
}

// sampler_golden.py wrote the file with Python's own class.
TEST(DistributedSampler, GivesPythonsOrder) {
  std::ifstream golden(MUSTER_SAMPLER_GOLDEN);
  int cases = 0;
  for (std::string line; std::getline(golden, line); ++cases) {
    std::istringstream fields(line);
    std::int64_t size = 0;
    std::int64_t epoch = 0;
    std::size_t count = 0;
    int replicas = 0;
    int rank = 0;
    std::uint64_t sum = 0;
    DistributedSamplerOptions options;
    fields >> size >> replicas >> rank >> options.shuffle >> options.seed >> epoch >> options.drop_last >>
        count >> sum;
    ASSERT_TRUE(fields) << line;
    const DistributedSampler sampler(size, replicas, rank, options);
    const auto indices = sampler.indices(epoch);
    ASSERT_EQ(indices.size(), count) << line;
    ASSERT_EQ(sampler.size(), static_cast<std::int64_t>(count)) << line;
    ASSERT_EQ(checksum(indices), sum) << line;
    std::vector<std::int64_t> written;
    for (std::int64_t index = 0; fields >> index;) written.push_back(index);
    if (!written.empty()) {
      ASSERT_EQ(indices, written) << line;
    }
  }
  EXPECT_GT(cases, 1000);
}

TEST(DistributedSampler, RanksTogetherCoverEachExampleOnce) {
  std::vector<std::int64_t> all;
  for (int rank = 0; rank < 4; ++rank) {
    const auto mine = DistributedSampler(100, 4, rank, {.seed = 3}).indices(5);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::ranges::sort(all);
  for (std::int64_t i = 0; i < 100; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i);
}

TEST(DistributedSampler, RefusesARankOutsideOfTheWorld) {
  EXPECT_THROW(DistributedSampler(10, 2, 2), std::invalid_argument);
  EXPECT_THROW(DistributedSampler(10, 0, 0), std::invalid_argument);
  EXPECT_EQ(DistributedSampler(0, 2, 1).indices(0).size(), 0u);
}

}  // namespace
}  // namespace muster
