// Reads the state of this machine's GPUs from NVML. The result is for people to read.
//
// The call can take seconds. If a GPU is lost, it may never return (nvml.h). Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/nvml.h"

namespace muster {

// The state of one GPU. The driver may not report everything; the field is then empty.
struct GpuReading {
  struct Process {
    std::int32_t pid = 0;
    std::optional<std::uint64_t> memory_bytes{};  // nothing: the driver does not report it
  };
  unsigned index = 0;  // NVML's number
  std::string name{};
  std::optional<int> utilization_percent{};
  std::uint64_t memory_used_bytes = 0;
  std::uint64_t memory_total_bytes = 0;
  std::optional<int> temperature_celsius{};
  std::optional<double> power_watts{};
  std::optional<int> sm_clock_mhz{};
  std::optional<int> memory_clock_mhz{};
  std::vector<std::string> throttle_reasons{};  // "power cap", "thermal slowdown"
  std::vector<Process> processes{};
};

// Returns how many GPUs NVML reports, or 0 if there is no NVML. The first call loads the driver's library.
std::int32_t gpus_of_driver();

// Call this only if `library.begin()` has returned true. If the driver reports no GPU, the list is empty.
std::vector<GpuReading> read_gpus(const Nvml& library);
// Like read_gpus(), but asks only for the memory and the processes.
std::vector<GpuReading> read_gpu_memory(const Nvml& library);
// Returns the processes that use this GPU. If the GPU does not answer, the list is empty.
std::vector<GpuReading::Process> processes_on_gpu(const Nvml& library, unsigned index);

}  // namespace muster
