#include "agent/core/health/gpu_memory.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
const std::vector<pid_t> kKilledPids{100, 101};

TEST(GpuMemory, OfTheKilledIsHeldWhileTheDriverListsThem) {
  EXPECT_EQ(held_bytes({{100, 3 * kGiB}, {200, kGiB}}, kKilledPids), 3 * kGiB);
  EXPECT_EQ(held_bytes({{100, 3 * kGiB}, {101, kGiB}}, kKilledPids), 4 * kGiB);
  EXPECT_EQ(held_bytes({{101, std::nullopt}}, kKilledPids), kUnknownGpuBytes);
}

TEST(GpuMemory, OfOtherProcessesIsTheirs) {
  EXPECT_EQ(held_bytes({{200, 8 * kGiB}}, kKilledPids), 0U);
  EXPECT_EQ(held_bytes({}, kKilledPids), 0U);
}

}  // namespace
}  // namespace muster::agent
