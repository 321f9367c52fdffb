// Decides whether workers wait until their output is taken, and when output is dropped because it is taken
// too slowly. The "taker" of the output is a log file, or the launcher. The rules are the same for both.
//
// - When more than `high_bytes` are queued, ranks begin to wait. When only half of that is queued, they go
//   on.
// - If the taker takes nothing for the time `stall`, output is dropped until only half of `high_bytes` is
//   queued.
// - There can be a hurry: the taker is a terminal, or workers are being stopped. Then output is dropped
//   earlier: as soon as the taker takes less than kProgressBytes within the time `patience`.
// Pure: the size of the queue and the time are passed in.
#pragma once

#include <cstddef>

#include "common/base/clock.h"

namespace muster::agent {

class Flow {
 public:
  static constexpr std::size_t kProgressBytes = std::size_t{1} << 20;
  static constexpr Duration kPatience = std::chrono::milliseconds(100);

  // `patience`: applies in a hurry.
  Flow(std::size_t high_bytes, Duration stall, Duration patience = kPatience)
      : high_bytes_(high_bytes), stall_(stall), patience_(patience) {}
  std::size_t high_bytes() const { return high_bytes_; }
  void set_hurry(bool hurry) { hurry_ = hurry; }
  // Returns whether the ranks should wait. Call this before reading more of their output. `backlog_bytes` is
  // the amount that is queued. `alive_at` is the time at which the taker last took something, or had nothing
  // to take.
  bool hold(std::size_t backlog_bytes, TimePoint alive_at, TimePoint now);
  // Returns whether the output that is read now has to be dropped.
  bool dropping() const { return state_ == State::kDropping; }

 private:
  std::size_t high_bytes_;
  Duration stall_;
  Duration patience_;
  bool hurry_ = false;
  enum class State { kFree, kHolding, kDropping } state_ = State::kFree;
  TimePoint since_;              // when the wait began, or when the taker last took kProgressBytes
  std::size_t since_bytes_ = 0;  // the backlog at since_
};

}  // namespace muster::agent
