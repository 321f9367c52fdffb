// Which node is left out for a while: one that was lost twice within a window.
//
// Pure; times are passed in.
#pragma once

#include <vector>

#include "common/base/clock.h"

namespace muster::launcher {

// The exclusion counts from the last loss.
struct ExclusionLimits {
  Duration window{};
  Duration exclusion{};
};

// `losses`: oldest first; the last two count.
inline bool is_excluded(const std::vector<TimePoint>& losses, const ExclusionLimits& limits, TimePoint now) {
  if (losses.size() < 2) return false;
  const TimePoint last = losses.back();
  return last - losses[losses.size() - 2] <= limits.window && now < last + limits.exclusion;
}

}  // namespace muster::launcher
