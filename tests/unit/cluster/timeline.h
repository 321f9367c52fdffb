// Virtual time: what will happen, in order, and the chance by which it is chosen. All of it follows from one
// seed.
//
// One thread. Whatever is scheduled must outlive the run, or know by a weak pointer that it is gone.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "common/base/clock.h"

namespace muster::simulation {

class Timeline {
 public:
  explicit Timeline(std::uint64_t seed) : rng_(seed) {}
  TimePoint now() const { return now_; }

  void at(TimePoint time, std::function<void()> what) {
    queue_.emplace(std::max(time, now_), std::move(what));
  }
  void after(Duration delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }
  // Until `done`, nothing is left to happen, or `end`.
  template <class Done>
  void run(Done done, TimePoint end) {
    while (!done() && !queue_.empty() && queue_.begin()->first <= end) {
      auto next = queue_.extract(queue_.begin());
      now_ = next.key();
      next.mapped()();
    }
  }

  // At least `low`, less than `high`.
  Duration between(Duration low, Duration high) {
    return low +
           Duration(static_cast<Duration::rep>(rng_() % static_cast<std::uint64_t>((high - low).count())));
  }
  int below(int count) { return static_cast<int>(rng_() % static_cast<std::uint64_t>(count)); }
  bool one_in(int count) { return below(count) == 0; }

 private:
  std::mt19937_64 rng_;
  TimePoint now_{std::chrono::seconds(1000)};
  std::multimap<TimePoint, std::function<void()>> queue_;
};

// Calls at the time that was set last, if nothing was set since.
class Alarm {
 public:
  Alarm(Timeline& timeline, std::function<void()> ring)
      : timeline_(timeline), state_(std::make_shared<State>(std::move(ring))) {}
  void set(std::optional<TimePoint> time) {
    if (time == state_->due) return;
    state_->due = time;
    if (!time) return;
    timeline_.at(*time, [weak = std::weak_ptr(state_), meant = *time] {
      const auto state = weak.lock();
      if (!state || state->due != meant) return;
      state->due.reset();
      state->ring();
    });
  }

 private:
  struct State {
    explicit State(std::function<void()> what) : ring(std::move(what)) {}
    std::function<void()> ring;
    std::optional<TimePoint> due;
  };
  Timeline& timeline_;
  std::shared_ptr<State> state_;
};

}  // namespace muster::simulation
