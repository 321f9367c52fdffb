#include "agent/core/output/disk_space.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

constexpr std::uint64_t kMib = 1 << 20;
constexpr std::uint64_t kGib = 1 << 30;

TEST(LowSpace, IsReportedInOneLine) {
  EXPECT_EQ(low_space("the log directory", "/x", {300 * kMib, 10 * kGib}),
            "the log directory /x has 300 MiB left (3 %)");
}

TEST(LowSpace, IsLessThanAGibOrASmallShareOfADiskThatIsNotLarge) {
  const auto low = [](std::uint64_t free, std::uint64_t total) {
    return low_space("the log directory", "/x", {free, total}).has_value();
  };
  EXPECT_TRUE(low(0, kGib));
  EXPECT_TRUE(low(kGib - 1, kGib));
  EXPECT_FALSE(low(kGib, kGib));
  EXPECT_TRUE(low(4 * kGib, 100 * kGib));
  EXPECT_FALSE(low(6 * kGib, 100 * kGib));
  EXPECT_FALSE(low(50 * kGib, 10'000 * kGib));
  EXPECT_FALSE(low(0, 0)) << "the file system does not count its blocks";
}

}  // namespace
}  // namespace muster::agent
