#include "tests/simulation/timeline.h"

#include <algorithm>
#include <utility>

namespace muster::simulation {

void Timeline::at(TimePoint time, What what) {
  if (closed_) return;
  std::uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.push_back(std::move(what));
  } else {
    slot = free_.back();
    free_.pop_back();
    slots_[slot] = std::move(what);
  }
  heap_.push_back({std::max(time, now_), order_++, slot});
  std::push_heap(heap_.begin(), heap_.end());
}

void Timeline::close() {
  closed_ = true;
  heap_.clear();
  slots_.clear();
}

bool Timeline::step(TimePoint end) {
  if (heap_.empty() || heap_.front().time > end) return false;
  std::pop_heap(heap_.begin(), heap_.end());
  const Due due = heap_.back();
  heap_.pop_back();
  now_ = due.time;
  ++event_count_;
  What what = std::exchange(slots_[due.slot], nullptr);
  free_.push_back(due.slot);
  what();
  return true;
}

}  // namespace muster::simulation
