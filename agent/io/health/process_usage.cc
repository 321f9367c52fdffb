#include "agent/io/health/process_usage.h"

#include <algorithm>
#include <ctime>
#include <fmt/format.h>
#include <string>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr std::size_t kMaxUsageBytes = 4096;
constexpr std::int64_t kSecond = 1'000'000'000;

}  // namespace

std::optional<ProcessUsage> usage_of(pid_t pid) {
  const auto stat = read_file(fmt::format("/proc/{}/stat", pid), kMaxUsageBytes);
  if (!stat) return std::nullopt;
  // proc(5): the 3rd field is the first one after the name, which may contain anything.
  const std::size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos || name_end + 2 > stat->size()) return std::nullopt;
  const auto fields = split(std::string_view(*stat).substr(name_end + 2), ' ');
  const auto field = [&fields](std::size_t number) {
    return number - 3 < fields.size() ? parse_number<std::int64_t>(fields[number - 3]).value_or(0) : 0;
  };
  const std::int64_t tick_ns = kSecond / sysconf(_SC_CLK_TCK);
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const std::int64_t started_ns = field(22) * tick_ns;
  return ProcessUsage{.cpu_ns = (field(14) + field(15)) * tick_ns,
                      .age_ns = std::max<std::int64_t>(now.tv_sec * kSecond + now.tv_nsec - started_ns, 1),
                      .memory_bytes = field(24) * sysconf(_SC_PAGESIZE)};
}

}  // namespace muster::agent
