#include "common/net/time.h"

#include <gtest/gtest.h>

namespace muster::net {
namespace {

using namespace std::chrono_literals;

TEST(ManualTime, RingsInTheOrderOfTimesAndShowsTheTimeOfEach) {
  ManualTime time;
  std::vector<std::pair<int, Duration>> rung;
  const TimePoint start = time.now();
  const auto late = time.make_alarm([&] { rung.emplace_back(2, time.now() - start); });
  const auto early = time.make_alarm([&] { rung.emplace_back(1, time.now() - start); });
  late->set(start + 20ms);
  early->set(start + 10ms);
  time.advance(15ms);
  EXPECT_EQ(rung, (std::vector<std::pair<int, Duration>>{{1, 10ms}}));
  time.advance(15ms);
  EXPECT_EQ(rung, (std::vector<std::pair<int, Duration>>{{1, 10ms}, {2, 20ms}}));
  EXPECT_EQ(time.now() - start, 30ms);
}

TEST(ManualTime, AnAlarmMaySetItselfAgainAndCanBeForgotten) {
  ManualTime time;
  int count = 0;
  std::unique_ptr<Alarm> alarm;
  alarm = time.make_alarm([&] {
    if (++count < 3) alarm->set(time.now() + 1ms);
  });
  alarm->set(time.now() + 1ms);
  time.advance(10ms);
  EXPECT_EQ(count, 3);
  alarm->set(time.now() + 1ms);
  alarm->set(std::nullopt);
  time.advance(10ms);
  EXPECT_EQ(count, 3);
}

TEST(SystemTime, RingsOnceAndNotBeforeItsTime) {
  asio::io_context context;
  SystemTime time(context.get_executor());
  const TimePoint when = time.now() + 5ms;
  int count = 0;
  TimePoint rung;
  const auto alarm = time.make_alarm([&] {
    ++count;
    rung = time.now();
  });
  alarm->set(time.now() + 1h);
  alarm->set(when);
  context.run();
  EXPECT_EQ(count, 1);
  EXPECT_GE(rung, when);
}

TEST(SystemTime, ADestroyedAlarmDoesNotRing) {
  asio::io_context context;
  SystemTime time(context.get_executor());
  bool rung = false;
  auto alarm = time.make_alarm([&] { rung = true; });
  alarm->set(time.now());
  alarm.reset();
  context.run();
  EXPECT_FALSE(rung);
}

}  // namespace
}  // namespace muster::net
