// Whether workers wait until their output is taken, and what becomes of output that is taken too slowly: one
// rule for each taker, which is the launcher for one stream, or one log file.
//
// While more than the high mark is on its way, ranks wait as long as the taker takes anything, and at most
// `stall` if it takes nothing; then output is to be dropped until half of the mark is left. In a hurry (the
// taker is a terminal, or workers are being stopped) ranks wait only for a taker that takes kProgressBytes
// within `patience`. Pure: the backlog and the time are passed in.
#pragma once

#include <cstddef>

#include "common/base/clock.h"

namespace muster::agent {

class Flow {
 public:
  static constexpr std::size_t kProgressBytes = std::size_t{1} << 20;
  static constexpr Duration kPatience = std::chrono::milliseconds(100);

  // `patience`: in a hurry.
  Flow(std::size_t high_bytes, Duration stall, Duration patience = kPatience)
      : high_bytes_(high_bytes), stall_(stall), patience_(patience) {}
  std::size_t high_bytes() const { return high_bytes_; }
  void set_hurry(bool hurry) { hurry_ = hurry; }
  // Whether the ranks should wait: asked before more of their output is read. `alive_at`: when the taker last
  // took something, or had nothing to take.
  bool hold(std::size_t backlog_bytes, TimePoint alive_at, TimePoint now);
  // Whether output that is read now is to be dropped.
  bool dropping() const { return state_ == State::kDropping; }

 private:
  std::size_t high_bytes_;
  Duration stall_;
  Duration patience_;
  bool hurry_ = false;
  enum class State { kFree, kHolding, kDropping } state_ = State::kFree;
  TimePoint since_;              // when holding began, or the taker last took much
  std::size_t since_bytes_ = 0;  // the backlog at since_
};

}  // namespace muster::agent
