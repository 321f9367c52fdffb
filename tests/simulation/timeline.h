// Virtual time: the queue of future events. One seed determines all of them.
//
// Objects used by scheduled functions must outlive the run, or be held by weak pointers. Events that are due
// at the same time happen in the order of scheduling. Reads no real clock. One thread.
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
  // Runs the next event; false if none is due until `end`.
  bool step(TimePoint end);
  // Drops all events, and every event scheduled from now on, even by destructors of the dropped ones.
  void close();
  std::uint64_t event_count() const { return event_count_; }

 private:
  struct Due {
    TimePoint time;
    std::uint64_t order = 0;
    std::uint32_t slot = 0;
    // For a heap, which has the greatest on top.
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
