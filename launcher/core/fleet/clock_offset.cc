#include "launcher/core/fleet/clock_offset.h"

#include <algorithm>
#include <utility>

namespace muster::launcher {

namespace {

std::int64_t difference(std::int64_t left, std::int64_t right) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(left) - static_cast<std::uint64_t>(right));
}

}  // namespace

void ClockOffset::on(const wire::Pong& pong, TimePoint now) {
  const std::int64_t round_trip = difference(to_ns(now), pong.sent_ns);
  if (round_trip < 0) return;
  if (now >= period_end_) {
    previous_ = std::exchange(current_, std::nullopt);
    period_end_ = now + kPeriod;
  }
  const Answer answer{round_trip, difference(difference(pong.at_ns, pong.sent_ns), round_trip / 2),
                      difference(to_ns(now), round_trip / 2)};
  keep_better(current_, answer);
  keep_better(untold_, answer);
  answer_count_ = std::min(answer_count_ + 1, kFirstAnswers + 1);
}

void ClockOffset::keep_better(std::optional<Answer>& best, const Answer& answer) {
  if (!best || answer.round_trip_ns < best->round_trip_ns) best = answer;
}

std::optional<ClockOffset::Answer> ClockOffset::take_answer(TimePoint now) {
  const bool is_first = answer_count_ == 1 || answer_count_ == kFirstAnswers;
  const bool is_due = answer_count_ > kFirstAnswers && now >= next_telling_;
  if (!untold_ || !(is_first || is_due)) return std::nullopt;
  next_telling_ = now + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
  return std::exchange(untold_, std::nullopt);
}

std::int64_t ClockOffset::here(std::int64_t there, TimePoint now) const {
  std::optional<Answer> best = previous_;
  if (current_) keep_better(best, *current_);
  return std::clamp(difference(there, best ? best->offset_ns : 0), std::int64_t{0}, to_ns(now));
}

}  // namespace muster::launcher
