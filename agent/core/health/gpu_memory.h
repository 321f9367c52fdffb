// Whether the memory of GPUs has come back whose processes were killed.
//
// The driver takes a process's memory back some time after the process has ended, seconds for a big one, and
// the next attempt would find too little. Plain functions of what the driver shows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace muster::agent {

// What the driver shows of one GPU.
struct GpuMemory {
  struct Process {
    pid_t pid = 0;
    std::optional<std::uint64_t> used_bytes;  // nothing: the driver does not tell
  };
  std::uint64_t used_bytes = 0;
  std::vector<Process> processes;
};

// So much may come and go without any process: the driver's own use.
constexpr std::uint64_t kGpuMemorySlack = std::uint64_t{64} << 20;

// How much of the GPU's memory is in use beyond `before` (when the job had no worker yet) and beyond what
// living processes other than `killed` account for; 0 if that is next to nothing. Without `before`: what the
// `killed` processes still hold.
std::uint64_t held_bytes(const std::optional<GpuMemory>& before, const GpuMemory& now,
                         const std::vector<pid_t>& killed, const std::function<bool(pid_t)>& lives);

}  // namespace muster::agent
