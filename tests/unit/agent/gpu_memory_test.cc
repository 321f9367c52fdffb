#include "agent/core/health/gpu_memory.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
const std::vector<pid_t> kKilledPids{100, 101};

bool all_live(pid_t) {
  return true;
}
bool none_lives(pid_t) {
  return false;
}

GpuMemory memory(std::uint64_t gib, std::vector<GpuMemory::Process> processes = {}) {
  return {gib * kGiB, std::move(processes)};
}

TEST(GpuMemory, IsHeldAsLongAsMoreIsInUseThanBeforeTheJob) {
  EXPECT_EQ(held_bytes(memory(2), memory(10), kKilledPids, all_live), 8 * kGiB);
  EXPECT_EQ(held_bytes(memory(2), memory(2), kKilledPids, all_live), 0U);
  EXPECT_EQ(held_bytes(memory(2), memory(1), kKilledPids, all_live), 0U);
  EXPECT_EQ(held_bytes(memory(2), {2 * kGiB + kGpuMemorySlack, {}}, kKilledPids, all_live), 0U);
}

TEST(GpuMemory, OfTheKilledIsHeldWhileTheDriverStillListsThem) {
  EXPECT_EQ(held_bytes(memory(2), memory(10, {{100, 8 * kGiB}}), kKilledPids, all_live), 8 * kGiB);
}

TEST(GpuMemory, OfProcessesThatStartedSinceIsTheirs) {
  EXPECT_EQ(held_bytes(memory(2), memory(10, {{200, 8 * kGiB}}), kKilledPids, all_live), 0U);
  EXPECT_EQ(held_bytes(memory(2), memory(10, {{200, 3 * kGiB}}), kKilledPids, all_live), 5 * kGiB);
  EXPECT_EQ(held_bytes(memory(2), memory(10, {{200, std::nullopt}}), kKilledPids, all_live), 0U)
      << "the driver does not say how much of it is theirs";
}

TEST(GpuMemory, OfProcessesThatRanBeforeCountsOnce) {
  EXPECT_EQ(held_bytes(memory(2, {{200, 2 * kGiB}}), memory(10, {{200, 2 * kGiB}}), kKilledPids, all_live),
            8 * kGiB);
}

TEST(GpuMemory, OfADeadProcessIsNotAnotherJobs) {
  EXPECT_EQ(held_bytes(memory(2), memory(10, {{200, 8 * kGiB}}), kKilledPids, none_lives), 8 * kGiB);
}

TEST(GpuMemory, WithoutAReadingBeforeTheJobIsHeldOnlyByTheKilled) {
  EXPECT_EQ(held_bytes(std::nullopt, memory(10, {{100, 3 * kGiB}, {200, kGiB}}), kKilledPids, all_live),
            3 * kGiB);
  EXPECT_EQ(held_bytes(std::nullopt, memory(10), kKilledPids, all_live), 0U);
}

}  // namespace
}  // namespace muster::agent
