#include "agent/core/flow.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

constexpr TimePoint at(int milliseconds) {
  return TimePoint() + std::chrono::milliseconds(milliseconds);
}

TEST(Flow, HoldsWhileTheLauncherCatchesUp) {
  Flow flow;
  EXPECT_FALSE(flow.hold(Flow::kHighBytes, at(0)));
  EXPECT_TRUE(flow.hold(Flow::kHighBytes + 1, at(1)));
  EXPECT_TRUE(flow.hold(Flow::kHighBytes - 1, at(50)));
  EXPECT_FALSE(flow.hold(Flow::kLowBytes, at(60)));
  EXPECT_FALSE(flow.hold(Flow::kHighBytes, at(61)));
  EXPECT_TRUE(flow.hold(Flow::kHighBytes + 1, at(62)));
}

TEST(Flow, DoesNotWaitForALauncherThatTakesNothingUntilItHasCaughtUp) {
  Flow flow;
  EXPECT_TRUE(flow.hold(Flow::kHighBytes + 1, at(0)));
  EXPECT_TRUE(flow.hold(Flow::kHighBytes + 1, at(99)));
  EXPECT_FALSE(flow.hold(Flow::kHighBytes + 1, at(100)));
  EXPECT_FALSE(flow.hold(8 * Flow::kHighBytes, at(10'000)));
  EXPECT_FALSE(flow.hold(Flow::kLowBytes + 1, at(20'000)));
  EXPECT_FALSE(flow.hold(Flow::kLowBytes, at(20'001)));
  EXPECT_TRUE(flow.hold(Flow::kHighBytes + 1, at(20'002)));
}

TEST(Flow, WaitsLongerForALauncherThatIsSlowAndGetsOn) {
  Flow flow;
  std::size_t backlog = Flow::kLowBytes + 3 * Flow::kProgressBytes;
  EXPECT_TRUE(flow.hold(backlog, at(0)));
  EXPECT_TRUE(flow.hold(backlog -= Flow::kProgressBytes, at(150)));
  EXPECT_TRUE(flow.hold(backlog -= Flow::kProgressBytes, at(240)));
  EXPECT_TRUE(flow.hold(backlog -= Flow::kProgressBytes - 1, at(339)));
  EXPECT_FALSE(flow.hold(backlog, at(340)));
}

}  // namespace
}  // namespace muster::agent
