// Returns the earlier one of two times. It is for deadlines that come from several places. A time can be
// empty, which means never.
#pragma once

#include <optional>

#include "common/base/clock.h"

namespace muster {

// Sets `time` to `other` if that is earlier.
inline void take_earlier(std::optional<TimePoint>& time, const std::optional<TimePoint>& other) {
  if (other && (!time || *other < *time)) time = other;
}

}  // namespace muster
