// Computes whether the driver has freed the GPU memory of killed processes.
//
// When a process has ended, the driver frees its memory some time later. If it is a lot of memory, this takes
// seconds. An attempt that starts in that time would find too little memory. Pure functions of the numbers
// that the driver reports.
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

// The driver itself uses memory, too. Its use can vary by this much while no process uses the GPU.
constexpr std::uint64_t kGpuMemorySlack = std::uint64_t{64} << 20;

// Estimates how many bytes of the GPU's memory the `killed` processes still hold. Returns 0 if it is next to
// nothing.
// - `before` was measured when the job had no worker yet. With it, the result is the memory in use now, minus
//   the memory in use then, minus the use of some living processes: those that came since then and are not in
//   `killed`.
// - Without `before`, the result is the memory that the driver reports for the `killed` processes.
std::uint64_t held_bytes(const std::optional<GpuMemory>& before, const GpuMemory& now,
                         const std::vector<pid_t>& killed, const std::function<bool(pid_t)>& lives);

}  // namespace muster::agent
