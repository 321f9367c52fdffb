// Back-pressure on workers' output: whether workers wait until it is taken, and when output that is taken too
// slowly is dropped. One rule for every taker of output: a log file, or the launcher for a stream.
//
// While more than the high mark is queued, ranks wait as long as the taker takes anything, and at most
// `stall` if it takes nothing; after that output is dropped until the queue is down to half of the mark. In a
// hurry (the taker is a terminal, or workers are being stopped) ranks wait only for a taker that takes
// kProgressBytes within `patience`. Pure: the backlog and the time are passed in.
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
  // Whether the ranks should wait. Call before reading more of their output. `alive_at`: when the taker last
  // took something, or had nothing to take.
  bool hold(std::size_t backlog_bytes, TimePoint alive_at, TimePoint now);
  // Whether to drop the output that is read now.
  bool dropping() const { return state_ == State::kDropping; }

 private:
  std::size_t high_bytes_;
  Duration stall_;
  Duration patience_;
  bool hurry_ = false;
  enum class State { kFree, kHolding, kDropping } state_ = State::kFree;
  TimePoint since_;              // when holding began, or the taker last took kProgressBytes
  std::size_t since_bytes_ = 0;  // the backlog at since_
};

}  // namespace muster::agent
