#include "agent/core/output/disk_space.h"

#include <fmt/format.h>

namespace muster::agent {

namespace {

constexpr std::uint64_t kMib = 1 << 20;
constexpr std::uint64_t kAlwaysLow = 1024 * kMib;
constexpr std::uint64_t kNeverLow = 50 * 1024 * kMib;
constexpr std::uint64_t kLowPercent = 5;

}  // namespace

std::optional<std::string> low_space(const std::string& what, const std::string& directory, DiskSpace space) {
  if (space.total_bytes == 0) return std::nullopt;  // a file system that does not count its blocks
  const double percent =
      100.0 * static_cast<double>(space.free_bytes) / static_cast<double>(space.total_bytes);
  const bool low = space.free_bytes < kAlwaysLow || (percent < kLowPercent && space.free_bytes < kNeverLow);
  if (!low) return std::nullopt;
  return fmt::format("{} {} has {} MiB left ({:.0f} %)", what, directory, space.free_bytes / kMib, percent);
}

}  // namespace muster::agent
