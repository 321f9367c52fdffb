// Estimates how far an agent's clock is ahead of the launcher's, from the agent's answers to pings.
//
// The estimate assumes that the agent answered in the middle of the round trip. The shorter the round trip,
// the smaller the error. Clocks drift apart by about 20 microseconds a second, so only the best answer of the
// last minutes counts. A peer can send any numbers. They make the results wrong, but never undefined. Pure;
// times are nanoseconds of each machine's monotonic clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/base/clock.h"
#include "common/wire/messages.h"

namespace muster::launcher {

class ClockOffset {
 public:
  // The best answer of one period counts until the end of the next period.
  static constexpr Duration kPeriod = std::chrono::minutes(2);

  // These constants say which answers take_answer() returns. First it returns answer 1. Then it returns the
  // best of answers 2 to kFirstAnswers, and after that the best answer of each pause. The first pause has the
  // length kFirstPause. Each next pause is twice as long, but never longer than kLongestPause.
  static constexpr int kFirstAnswers = 16;
  static constexpr Duration kFirstPause = std::chrono::seconds(1);
  static constexpr Duration kLongestPause = std::chrono::seconds(16);
  struct Answer {
    std::int64_t round_trip_ns = 0;
    std::int64_t offset_ns = 0;  // the agent's clock minus ours
    std::int64_t at_ns = 0;      // when this was measured, on our clock
  };

  void on(const wire::Pong& pong, TimePoint now);
  // Converts `there`, a time of the agent's clock, to the launcher's clock. Never returns a time after `now`.
  std::int64_t here(std::int64_t there, TimePoint now) const;
  // For traces. If an answer is due, returns the best one of those that came after the last one returned.
  // Otherwise returns nullopt.
  std::optional<Answer> take_answer(TimePoint now);
  // Returns whether the launcher should ping again at once. A trace needs this as long as there are only few
  // answers.
  bool wants_more() const { return answer_count_ < kFirstAnswers; }

 private:
  static void keep_better(std::optional<Answer>& best, const Answer& answer);

  // The best answer of the current period, and the best of the period before it.
  std::optional<Answer> current_;
  std::optional<Answer> previous_;
  TimePoint period_end_;
  int answer_count_ = 0;  // up to one more than kFirstAnswers
  std::optional<Answer> untold_;
  TimePoint next_telling_;
  Duration pause_ = kFirstPause;
};

}  // namespace muster::launcher
