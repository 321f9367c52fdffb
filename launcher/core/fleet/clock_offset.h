// How far an agent's clock is ahead of ours, from its answers to pings.
//
// The agent answered somewhere within the round trip: the shorter that was, the better is its middle. Two
// clocks drift apart, by 20 microseconds a second or so, so that what was measured long ago is forgotten: the
// best answer of the last minutes counts. A peer's times may be any numbers; what comes of them is then
// wrong, but not undefined. Pure; times are nanoseconds of each machine's monotonic clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/base/clock.h"
#include "common/wire/messages.h"

namespace muster::launcher {

class ClockOffset {
 public:
  // The best answer counts for one to two of these periods.
  static constexpr Duration kPeriod = std::chrono::minutes(2);

  void on(const wire::Pong& pong, TimePoint now);
  // The moment `there` of the agent's clock, by the launcher's; never later than `now`.
  std::int64_t here(std::int64_t there, TimePoint now) const;

 private:
  struct Answer {
    std::int64_t round_trip_ns = 0;
    std::int64_t offset_ns = 0;  // the agent's clock less ours
  };
  static void keep_better(std::optional<Answer>& best, const Answer& answer);

  // The best of the period at hand, and of the one before it.
  std::optional<Answer> current_;
  std::optional<Answer> previous_;
  TimePoint period_end_;
};

}  // namespace muster::launcher
