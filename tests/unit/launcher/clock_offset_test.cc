#include "launcher/core/fleet/clock_offset.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kOffsetStart{1000s};

// An agent whose clock is `ahead` of ours. Its answer took `round_trip`, all of it on the way to the agent.
wire::Pong answer(TimePoint now, Duration round_trip, Duration ahead) {
  return {.sent_ns = to_ns(now - round_trip), .at_ns = to_ns(now + ahead)};
}

TEST(ClockOffset, TrustsTheShortestRoundTrip) {
  ClockOffset offset;
  offset.on(answer(kOffsetStart, 100ms, 5s), kOffsetStart);
  offset.on(answer(kOffsetStart + 1s, 2ms, 5s), kOffsetStart + 1s);
  offset.on(answer(kOffsetStart + 2s, 50ms, 5s), kOffsetStart + 2s);
  EXPECT_EQ(offset.here(to_ns(kOffsetStart + 8s), kOffsetStart + 10s), to_ns(kOffsetStart + 3s - 1ms));
}

TEST(ClockOffset, ForgetsWhatWasMeasuredMinutesAgoSinceClocksDrift) {
  ClockOffset offset;
  offset.on(answer(kOffsetStart, 1ms, 0s), kOffsetStart);
  TimePoint now = kOffsetStart;
  for (Duration ahead{}; now < kOffsetStart + 1h; ahead += 20us) {  // 20 microseconds a second
    now += 1s;
    offset.on(answer(now, 2ms, ahead), now);
  }
  const std::int64_t error_ns = offset.here(to_ns(now + 72ms), now + 1s) - to_ns(now);
  EXPECT_LT(std::abs(error_ns), std::chrono::nanoseconds(7ms).count());
}

TEST(ClockOffset, KeepsThePreviousPeriodsBestUntilThereIsABetterOne) {
  ClockOffset offset;
  offset.on(answer(kOffsetStart, 2ms, 5s), kOffsetStart);
  const TimePoint later = kOffsetStart + ClockOffset::kPeriod;
  offset.on(answer(later, 800ms, 5s), later);
  EXPECT_EQ(offset.here(to_ns(later + 5s), later + 1s), to_ns(later - 1ms));
}

TEST(ClockOffset, ReturnsTheBestAnswerAtGrowingIntervals) {
  ClockOffset offset;
  EXPECT_EQ(offset.take_answer(kOffsetStart), std::nullopt);
  std::vector<std::int64_t> at_seconds, round_trips_ms;
  for (int second = 0; second < 70; ++second) {
    const TimePoint now = kOffsetStart + std::chrono::seconds(second);
    offset.on(answer(now, second % 5 == 0 ? 2ms : 8ms, 5s), now);
    const auto told = offset.take_answer(now);
    if (!told) continue;
    at_seconds.push_back(second);
    round_trips_ms.push_back(told->round_trip_ns / 1'000'000);
    EXPECT_EQ(told->offset_ns, to_ns(Duration(5s)) + told->round_trip_ns / 2);
  }
  EXPECT_EQ(at_seconds, (std::vector<std::int64_t>{0, 15, 17, 21, 29, 45, 61}));
  EXPECT_EQ(round_trips_ms, (std::vector<std::int64_t>{2, 2, 8, 2, 2, 2, 2}));
}

TEST(ClockOffset, NeverReturnsATimeInTheFutureForAnyNumbersOfAPeer) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  for (const std::int64_t at : {kMost, kLeast, std::int64_t{0}}) {
    ClockOffset offset;
    offset.on({.sent_ns = at, .at_ns = kLeast}, kOffsetStart);
    offset.on({.sent_ns = 1, .at_ns = at}, kOffsetStart);
    EXPECT_LE(offset.here(at, kOffsetStart), to_ns(kOffsetStart));
    EXPECT_GE(offset.here(at, kOffsetStart), 0);
  }
}

}  // namespace
}  // namespace muster::launcher
