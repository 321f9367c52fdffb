#include "launcher/core/text/duration.h"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>

#include "common/base/text.h"

namespace muster::launcher {

namespace {

// This is ten years. If a duration is longer, it is a mistake. In nanoseconds it could overflow.
constexpr double kMostSeconds = 3.2e8;

std::optional<double> seconds_of(std::string_view text) {
  if (const auto number = parse_number<double>(text)) return number;
  double total = 0;
  while (!text.empty()) {
    const std::size_t unit = text.find_first_not_of("0123456789.");
    if (unit == 0 || unit == std::string_view::npos) return std::nullopt;
    const auto number = parse_number<double>(text.substr(0, unit));
    const std::size_t kind = std::string_view("smhd").find(text[unit]);
    if (!number || kind == std::string_view::npos) return std::nullopt;
    constexpr double kSeconds[] = {1, 60, 3600, 86400};
    total += *number * kSeconds[kind];
    text.remove_prefix(unit + 1);
  }
  return total;
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  const auto seconds = text.empty() ? std::nullopt : seconds_of(text);
  return seconds ? duration_of(*seconds) : std::nullopt;
}

std::optional<Duration> duration_of(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kMostSeconds) return std::nullopt;
  return std::chrono::duration_cast<Duration>(Seconds(seconds));
}

bool is_duration(Duration duration) {
  return duration >= Duration::zero() && duration <= Seconds(kMostSeconds);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(0.0, std::round(seconds)));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
  return fmt::format("{}d{:02}h", whole / 86400, whole % 86400 / 3600);
}

}  // namespace muster::launcher
