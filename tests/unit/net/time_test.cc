#include "common/net/time.h"

#include <gtest/gtest.h>

namespace muster::net {
namespace {

using namespace std::chrono_literals;

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
