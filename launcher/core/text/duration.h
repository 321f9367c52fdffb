// Durations as people write and read them.
//
// One form for all flags, variables, keys of the configuration file and commands. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace muster::launcher {

// "10", "0.5" and "10s" in seconds, "5m", "1h30m", "2d". Nothing if it is none of these.
std::optional<Duration> parse_duration(std::string_view text);
// Nothing if it is less than zero, or more than ten years.
std::optional<Duration> duration_of(double seconds);

// Whether it is one that these give.
bool is_duration(Duration duration);

// "12s", "3m20s", "2h05m", "3d04h"
std::string duration_text(double seconds);

}  // namespace muster::launcher
