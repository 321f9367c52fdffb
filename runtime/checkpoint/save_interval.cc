#include "runtime/checkpoint/save_interval.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace muster {

namespace {

// Steps that take longer from now on make a save late by this share of the interval at most.
constexpr double kAhead = 0.5;

}  // namespace

Seconds mean_time_between_failures(Seconds expected, int failures, Seconds observed) {
  return (expected + observed) / (1 + failures);
}

Seconds SaveInterval::interval() const {
  if (fixed_) return *fixed_;
  // Young's optimum; a save cannot follow before the one before it is committed.
  const Seconds young(std::sqrt(2 * held_up_.count() * between_failures_.count()));
  return std::max(young, until_committed_);
}

SaveInterval::Look SaveInterval::look(std::int64_t step, TimePoint now) {
  if (!last_save_) last_save_ = now;
  const std::int64_t steps = step - step_of_last_look_;
  const Seconds a_step =
      last_look_ && steps > 0 ? Seconds(now - *last_look_) / static_cast<double>(steps) : Seconds(0);
  last_look_ = now;
  step_of_last_look_ = step;
  const Seconds left = interval() - Seconds(now - *last_save_);
  if (left <= a_step / 2) {
    last_save_ = now;
    return {.saves = true, .next_step = step + 1};
  }
  if (a_step <= Seconds(0)) return {.saves = false, .next_step = step + 1};
  const double ahead = left / a_step;
  const double steps_ahead = ahead > 4 ? ahead * kAhead : std::round(ahead);
  return {.saves = false,
          .next_step = step + std::max<std::int64_t>(static_cast<std::int64_t>(steps_ahead), 1)};
}

void SaveInterval::saved(TimePoint when, Seconds held_up, Seconds until_committed) {
  last_save_ = when;
  held_up_ = held_up;
  until_committed_ = until_committed;
}

std::optional<std::string> SaveInterval::explanation() {
  if (fixed_ || (told_ && std::abs(interval() / *told_ - 1) < 0.25)) return std::nullopt;
  told_ = interval();
  return fmt::format(
      "a checkpoint every {:.0f} s: sqrt(2 x {:.3f} s that a save holds training up x {:.0f} s between "
      "failures), "
      "and at least the {:.1f} s until one is committed",
      interval().count(), held_up_.count(), between_failures_.count(), until_committed_.count());
}

}  // namespace muster
