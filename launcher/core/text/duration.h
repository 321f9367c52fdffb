// Parses and prints durations, in the same form for all flags, variables, configuration files and commands.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace muster::launcher {

// Reads a duration. "10", "0.5" and "10s" are seconds. "5m", "1h30m" and "2d" are possible, too. Returns
// nullopt for any other text.
std::optional<Duration> parse_duration(std::string_view text);
// Returns nullopt if `seconds` is negative or is more than ten years.
std::optional<Duration> duration_of(double seconds);

// Returns whether one of the functions above could have returned this duration.
bool is_duration(Duration duration);

// "12s", "3m20s", "2h05m", "3d04h"
std::string duration_text(double seconds);

}  // namespace muster::launcher
