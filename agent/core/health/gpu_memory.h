// Computes whether the driver has freed the GPU memory of killed processes.
//
// The driver frees a process's memory some time after the process has ended. For a lot of memory this takes
// seconds, and an attempt that starts meanwhile would find too little. Pure functions of the driver's
// numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace muster::agent {

// The driver's numbers for one GPU.
struct GpuMemory {
  struct Process {
    pid_t pid = 0;
    std::optional<std::uint64_t> used_bytes;  // nothing: the driver does not report it
  };
  std::uint64_t used_bytes = 0;
  std::vector<Process> processes;
};

// The driver's own use of memory can vary by this much without any process.
constexpr std::uint64_t kGpuMemorySlack = std::uint64_t{64} << 20;

// Returns how many bytes of the GPU's memory the `killed` processes probably still hold; 0 if negligible.
// - With `before`, which was measured when the job had no worker yet: the memory in use now, minus the memory
//   in use at that time, minus the use of living processes that came since and are not in `killed`.
// - Without `before`: the memory that the driver reports for the `killed` processes.
std::uint64_t held_bytes(const std::optional<GpuMemory>& before, const GpuMemory& now,
                         const std::vector<pid_t>& killed, const std::function<bool(pid_t)>& lives);

}  // namespace muster::agent
