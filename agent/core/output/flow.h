// Back-pressure on workers' output: decides whether workers wait until their output is taken, and when output
// is dropped because it is taken too slowly. The rule is the same whoever takes the output: a log file, or
// the launcher.
//
// - Ranks begin to wait when more than `high_bytes` are queued, and go on when half of that is queued.
// - If the taker takes nothing for `stall`, output is dropped until half of `high_bytes` is queued.
// - In a hurry (the taker is a terminal, or workers are being stopped), output is dropped earlier: when the
//   taker takes less than kProgressBytes within `patience`.
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
  // Returns whether the ranks should wait. Call before reading more of their output. `backlog_bytes`: how
  // much is queued. `alive_at`: when the taker last took something, or had nothing to take.
  bool hold(std::size_t backlog_bytes, TimePoint alive_at, TimePoint now);
  // Whether to drop the output that is read now.
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
