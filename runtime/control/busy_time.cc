#include "runtime/control/busy_time.h"

#include <utility>

namespace muster {

void BusyTime::wait_begins(TimePoint now) {
  const std::scoped_lock lock(mutex_);
  if (!step_began_) step_began_ = now;
  wait_began_ = now;
}

void BusyTime::wait_ends(TimePoint now) {
  const std::scoped_lock lock(mutex_);
  if (!wait_began_) return;
  waiting_ += now - *std::exchange(wait_began_, std::nullopt);
  waited_ = true;
}

std::optional<Duration> BusyTime::step_ended(TimePoint now) {
  const std::scoped_lock lock(mutex_);
  const auto began = std::exchange(step_began_, now);
  const bool waits = std::exchange(wait_began_, std::nullopt).has_value();
  const bool waited = std::exchange(waited_, false);
  const Duration waiting = std::exchange(waiting_, Duration::zero());
  if (!began || waits || !waited) return std::nullopt;
  return now - *began - waiting;
}

BusyTime& busy_time() {
  static BusyTime time;
  return time;
}

}  // namespace muster
