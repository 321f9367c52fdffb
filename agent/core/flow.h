// Whether the workers' output waits for a launcher that is behind.
//
// A rank that prints more than the launcher takes for a moment waits, and no line is lost. A launcher that
// takes nothing, or less than kProgressBytes in kPatience, must not hold up training: lines are dropped
// instead (by others), until it has caught up. Pure: the backlog and the time are passed in.
#pragma once

#include <cstddef>

#include "common/base/clock.h"

namespace muster::agent {

class Flow {
 public:
  static constexpr std::size_t kHighBytes = std::size_t{4} << 20;
  static constexpr std::size_t kLowBytes = std::size_t{2} << 20;
  static constexpr std::size_t kProgressBytes = std::size_t{1} << 20;
  static constexpr Duration kPatience = std::chrono::milliseconds(100);

  // Asked before more is read.
  bool hold(std::size_t backlog_bytes, TimePoint now);

 private:
  enum class State { kFree, kHolding, kDropping } state_ = State::kFree;
  TimePoint since_;              // holding, or the last progress
  std::size_t since_bytes_ = 0;  // the backlog then
};

}  // namespace muster::agent
