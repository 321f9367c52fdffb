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

  // take_answer() gives the first, the best of so many, and then one after this time, and after twice as long
  // each time, up to this.
  static constexpr int kFirstAnswers = 16;
  static constexpr Duration kFirstPause = std::chrono::seconds(1);
  static constexpr Duration kLongestPause = std::chrono::seconds(16);
  struct Answer {
    std::int64_t round_trip_ns = 0;
    std::int64_t offset_ns = 0;  // the agent's clock less ours
    std::int64_t at_ns = 0;      // when it was so, by our clock
  };

  void on(const wire::Pong& pong, TimePoint now);
  // The moment `there` of the agent's clock, by the launcher's; never later than `now`.
  std::int64_t here(std::int64_t there, TimePoint now) const;
  // Every now and then, for those who look back: the best answer since the one that was given last.
  std::optional<Answer> take_answer(TimePoint now);
  // So few answers have come that more should be asked for at once, by those who look back.
  bool wants_more() const { return answer_count_ < kFirstAnswers; }

 private:
  static void keep_better(std::optional<Answer>& best, const Answer& answer);

  // The best of the period at hand, and of the one before it.
  std::optional<Answer> current_;
  std::optional<Answer> previous_;
  TimePoint period_end_;
  int answer_count_ = 0;  // up to one more than kFirstAnswers
  std::optional<Answer> untold_;
  TimePoint next_telling_;
  Duration pause_ = kFirstPause;
};

}  // namespace muster::launcher
