// Time as Muster uses it: monotonic and local to one machine.
//
// Decisions never read a clock: the time is passed to them. Wall-clock time appears in reports only and is
// never compared.
#pragma once

#include <chrono>
#include <cstdint>

namespace muster {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;
using Seconds = std::chrono::duration<double>;  // for durations that people read and write

// Nanoseconds, as messages carry times.
constexpr std::int64_t to_ns(TimePoint time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}
constexpr std::int64_t to_ns(Duration time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}
constexpr Duration from_ns(std::int64_t count) {
  return std::chrono::nanoseconds(count);
}

// Wall-clock time, in nanoseconds since 1970.
inline std::int64_t unix_ns() {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count();
}

}  // namespace muster
