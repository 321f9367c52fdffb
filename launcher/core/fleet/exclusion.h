// Exclusion: a node that was lost twice within a window is not used for a while.
//
// Pure; times are passed in.
#pragma once

#include <vector>

#include "common/base/clock.h"

namespace muster::launcher {

struct ExclusionLimits {
  Duration window{};     // longest time between two losses that lead to an exclusion
  Duration exclusion{};  // its length, from the last loss on
};

// `losses`: oldest first; the last two count.
inline bool is_excluded(const std::vector<TimePoint>& losses, const ExclusionLimits& limits, TimePoint now) {
  if (losses.size() < 2) return false;
  const TimePoint last = losses.back();
  return last - losses[losses.size() - 2] <= limits.window && now < last + limits.exclusion;
}

}  // namespace muster::launcher
