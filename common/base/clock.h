// The types for time in Muster. Time is monotonic, and local to one machine.
//
// Code that decides never reads a clock: the time is passed to it. Wall-clock time appears only in reports,
// and is never compared.
#pragma once

#include <chrono>
#include <cstdint>

namespace muster {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;
using Seconds = std::chrono::duration<double>;  // for durations that people read and write

// Converts to nanoseconds, the unit of times in messages.
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
