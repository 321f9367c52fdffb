// The earlier of times that may be never: for deadlines that come from several places.
//
// Plain function; safe in any thread. Reads no clock.
#pragma once

#include <optional>

#include "common/base/clock.h"

namespace muster {

// `time` becomes `other`, if that is earlier. Empty: never.
inline void take_earlier(std::optional<TimePoint>& time, const std::optional<TimePoint>& other) {
  if (other && (!time || *other < *time)) time = other;
}

}  // namespace muster
