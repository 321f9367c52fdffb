#include "agent/core/health/gpu_memory.h"

#include <algorithm>

namespace muster::agent {

std::uint64_t held_bytes(const std::vector<GpuReading::Process>& listed, const std::vector<pid_t>& killed) {
  std::uint64_t sum = 0;
  for (const GpuReading::Process& each : listed) {
    if (std::ranges::find(killed, each.pid) != killed.end())
      sum += each.memory_bytes.value_or(kUnknownGpuBytes);
  }
  return sum;
}

}  // namespace muster::agent
