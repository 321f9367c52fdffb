// The processor time and memory of a process, from /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <sys/types.h>

namespace muster::agent {

struct ProcessUsage {
  std::int64_t cpu_ns = 0;        // in user and kernel mode, of all its threads, since its start
  std::int64_t age_ns = 0;        // since its start
  std::int64_t memory_bytes = 0;  // resident
};
// Nothing if the process is gone.
std::optional<ProcessUsage> usage_of(pid_t pid);

}  // namespace muster::agent
