// Whether the driver has freed the GPU memory of killed processes.
//
// The driver frees a process's memory some time after the process has ended. A lot of memory takes seconds,
// in which the next attempt would find too little. Plain functions of the driver's numbers.
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

// How much of the GPU's memory is in use beyond `before` (measured when the job had no worker yet) and beyond
// the use of living processes other than `killed`; 0 if that is negligible. Without `before`: the memory that
// the `killed` processes still hold.
std::uint64_t held_bytes(const std::optional<GpuMemory>& before, const GpuMemory& now,
                         const std::vector<pid_t>& killed, const std::function<bool(pid_t)>& lives);

}  // namespace muster::agent
