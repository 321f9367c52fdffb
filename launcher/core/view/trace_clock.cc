#include "launcher/core/view/trace_clock.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace muster::launcher {

namespace {

constexpr double kDrift = 2e-5;            // of two clocks, in seconds per second
constexpr double kSteepest = 1e-2;         // a steeper change is not drift: the host was rebooted
constexpr std::int64_t kMost = 1LL << 61;  // keeps sums and differences in range

bool is_time(std::int64_t value) {
  return value > -kMost && value < kMost;
}

double between(std::int64_t one, std::int64_t other) {
  return std::abs(static_cast<double>(one) - static_cast<double>(other));
}

// Keeps an answer if it is at least as precise as the best one before it. The error of the best one grows
// with time, by kDrift.
template <class Answers>
void sift(Answers& answers) {
  Answers good;
  double error = 0;  // of the best answer, aged to `now`
  std::int64_t now = 0;
  for (const auto& each : answers) {
    error += kDrift * between(each.there, now);
    now = each.there;
    if (!good.empty() && each.error > error) continue;
    error = each.error;
    good.push_back(each);
  }
  answers = std::move(good);
}

}  // namespace

TraceClock::TraceClock(const std::vector<ClockOffset::Answer>& answers) {
  for (const auto& [round_trip, offset, at] : answers) {
    if (is_time(round_trip) && is_time(offset) && is_time(at))
      answers_.push_back({at + offset, offset, between(round_trip, 0) / 2});
  }
  std::ranges::sort(answers_, {}, &Known::there);
  sift(answers_);
  std::ranges::reverse(answers_);
  sift(answers_);
  std::ranges::reverse(answers_);
}

std::int64_t TraceClock::here(std::int64_t there) const {
  if (answers_.empty()) return there;
  const auto after = std::ranges::upper_bound(answers_, there, {}, &Known::there);
  if (after == answers_.begin()) return there - after->offset;
  const Known& before = *std::prev(after);
  if (after == answers_.end()) return there - before.offset;
  const double length = between(after->there, before.there);
  const double part = between(there, before.there) / length;
  const auto change = static_cast<double>(after->offset - before.offset);
  if (std::abs(change) > kSteepest * length) return there - (part < 0.5 ? before : *after).offset;
  return there - before.offset - std::llround(part * change);
}

}  // namespace muster::launcher
