#include "runtime/train/progress_line.h"

#include <algorithm>
#include <fmt/format.h>

namespace muster {
namespace {

constexpr auto kRedrawTime = std::chrono::milliseconds(100);
constexpr auto kLineTime = std::chrono::seconds(5);
constexpr std::int64_t kBarCells = 20;

std::string minutes_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace

bool ProgressLine::is_due(std::int64_t step, Time now) const {
  return now - printed_ >= (terminal_ ? std::chrono::nanoseconds(kRedrawTime) : kLineTime) ||
         (steps_.total > 0 && step == steps_.total);
}

std::string ProgressLine::text(std::int64_t step, std::optional<double> loss, std::int64_t samples,
                               Time now) {
  printed_ = now;
  drawn_ = true;
  std::string line = terminal_ ? "\r\033[K" : "";
  if (terminal_ && steps_.total > 0) {
    const std::int64_t full = std::clamp<std::int64_t>(step * kBarCells / steps_.total, 0, kBarCells);
    line += fmt::format("[{}{}] ", std::string(static_cast<std::size_t>(full), '#'),
                        std::string(static_cast<std::size_t>(kBarCells - full), '.'));
  }
  line += steps_.total > 0 ? fmt::format("step {}/{}", step, steps_.total) : fmt::format("step {}", step);
  if (loss) line += fmt::format("  loss {:.4f}", *loss);
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const auto done = static_cast<double>(step - steps_.first);
  if (seconds > 0 && done > 0) {
    line += samples > 0 ? fmt::format("  {:.0f} samples/s", static_cast<double>(samples) / seconds)
                        : fmt::format("  {:.3g} steps/s", done / seconds);
    if (steps_.total > 0)
      line +=
          fmt::format("  {} left", minutes_text(static_cast<double>(steps_.total - step) * seconds / done));
  }
  return terminal_ ? line : line + "\n";
}

}  // namespace muster
