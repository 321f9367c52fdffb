// Time as Muster uses it: monotonic and local to one machine.
//
// Decisions never read a clock: the time is passed to them. Wall-clock time appears in reports only and is
// never compared.
#pragma once

#include <chrono>

namespace muster {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;
using Seconds = std::chrono::duration<double>;  // for durations that people read and write

}  // namespace muster
