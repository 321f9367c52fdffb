// Virtual time: what will happen, in order. All of it follows from one seed.
//
// One thread. Whatever is scheduled must outlive the run, or know by a weak pointer that it is gone. What is
// due at the same time happens in the order in which it was scheduled. Reads no real clock.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/clock.h"

namespace muster::simulation {

class Timeline {
 public:
  using What = std::move_only_function<void()>;

  TimePoint now() const { return now_; }
  void at(TimePoint time, What what);
  void after(Duration delay, What what) { at(now_ + delay, std::move(what)); }
  // The next that is due; false if nothing is due until `end`.
  bool step(TimePoint end);
  // Throws away what is due, and from then on whatever is scheduled, by its destructors too.
  void close();
  std::uint64_t event_count() const { return event_count_; }

 private:
  struct Due {
    TimePoint time;
    std::uint64_t order = 0;
    std::uint32_t slot = 0;
    // Of a heap: the greatest is on top.
    bool operator<(const Due& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  TimePoint now_{std::chrono::seconds(1000)};
  std::uint64_t event_count_ = 0;
  std::uint64_t order_ = 0;
  bool closed_ = false;
  std::vector<Due> heap_;
  std::vector<What> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace muster::simulation
