#include "agent/core/health/gpu_memory.h"

#include <algorithm>

namespace muster::agent {

namespace {

// Returns how many bytes some of the processes use in total: those for which `counts` returns true. If the
// driver does not report the use of a process, `unknown` is added for it.
std::uint64_t used_by(const GpuMemory& memory, std::uint64_t unknown,
                      const std::function<bool(pid_t)>& counts) {
  std::uint64_t sum = 0;
  for (const GpuMemory::Process& each : memory.processes) {
    if (counts(each.pid)) sum += each.used_bytes.value_or(unknown);
  }
  return sum;
}

}  // namespace

std::uint64_t held_bytes(const std::optional<GpuMemory>& before, const GpuMemory& now,
                         const std::vector<pid_t>& killed, const std::function<bool(pid_t)>& lives) {
  const auto was_killed = [&killed](pid_t pid) { return std::ranges::find(killed, pid) != killed.end(); };
  if (!before) return used_by(now, kGpuMemorySlack + 1, was_killed);
  const auto is_strangers = [&](pid_t pid) {
    const bool was_there =
        std::ranges::find(before->processes, pid, &GpuMemory::Process::pid) != before->processes.end();
    return !was_there && !was_killed(pid) && lives(pid);
  };
  const std::uint64_t expected =
      before->used_bytes + used_by(now, now.used_bytes, is_strangers) + kGpuMemorySlack;
  return now.used_bytes > expected ? now.used_bytes - expected + kGpuMemorySlack : 0;
}

}  // namespace muster::agent
