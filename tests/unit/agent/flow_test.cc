#include "agent/core/output/flow.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

constexpr std::size_t kHigh = std::size_t{4} << 20;
constexpr Duration kStall = std::chrono::seconds(30);

constexpr TimePoint at(int milliseconds) {
  return TimePoint() + std::chrono::milliseconds(milliseconds);
}

TEST(Flow, HoldsFromTheHighMarkUntilHalfOfItIsLeft) {
  Flow flow(kHigh, kStall);
  EXPECT_FALSE(flow.hold(kHigh, at(0), at(0)));
  EXPECT_TRUE(flow.hold(kHigh + 1, at(0), at(1)));
  EXPECT_TRUE(flow.hold(kHigh / 2 + 1, at(50), at(50)));
  EXPECT_FALSE(flow.hold(kHigh / 2, at(60), at(60)));
  EXPECT_FALSE(flow.hold(kHigh, at(61), at(61)));
  EXPECT_TRUE(flow.hold(kHigh + 1, at(61), at(62)));
}

TEST(Flow, WaitsAsLongAsAnythingIsTaken) {
  Flow flow(kHigh, kStall);
  TimePoint now = at(0);
  for (int taken = 0; taken < 1000; ++taken) {
    const TimePoint alive = now;
    now += std::chrono::seconds(29);
    ASSERT_TRUE(flow.hold(kHigh + 1001 - static_cast<std::size_t>(taken), alive, now));
    ASSERT_FALSE(flow.dropping());
  }
}

TEST(Flow, DropsWhenNothingWasTakenForTheStallUntilTheTakerHasCaughtUp) {
  Flow flow(kHigh, kStall);
  EXPECT_TRUE(flow.hold(kHigh + 1, at(0), at(0)));
  EXPECT_TRUE(flow.hold(kHigh + 1, at(0), at(29'999)));
  EXPECT_FALSE(flow.hold(kHigh + 1, at(0), at(30'000)));
  EXPECT_TRUE(flow.dropping());
  EXPECT_FALSE(flow.hold(kHigh / 2 + 1, at(40'000), at(40'000)));
  EXPECT_TRUE(flow.dropping()) << "it has not caught up yet";
  EXPECT_FALSE(flow.hold(kHigh / 2, at(40'001), at(40'001)));
  EXPECT_FALSE(flow.dropping());
  EXPECT_TRUE(flow.hold(kHigh + 1, at(40'001), at(40'002)));
}

TEST(Flow, InAHurryWaitsOnlyForAFastTaker) {
  Flow flow(kHigh, kStall);
  flow.set_hurry(true);
  std::size_t backlog = kHigh + Flow::kProgressBytes;
  EXPECT_TRUE(flow.hold(backlog, at(0), at(0)));
  EXPECT_TRUE(flow.hold(backlog -= Flow::kProgressBytes, at(99), at(99)));
  EXPECT_TRUE(flow.hold(backlog -= Flow::kProgressBytes - 1, at(198), at(198)));
  EXPECT_FALSE(flow.hold(backlog, at(198), at(199)));
  EXPECT_TRUE(flow.dropping());
}

TEST(Flow, AStopEndsAWaitThatHasBegun) {
  Flow flow(kHigh, kStall);
  EXPECT_TRUE(flow.hold(kHigh + 1, at(0), at(0)));
  EXPECT_TRUE(flow.hold(kHigh + 1, at(0), at(10'000)));
  flow.set_hurry(true);
  EXPECT_FALSE(flow.hold(kHigh + 1, at(9'999), at(10'001)));
  EXPECT_TRUE(flow.dropping());
}

}  // namespace
}  // namespace muster::agent
