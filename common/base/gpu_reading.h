// Reads the state of this machine's GPUs from NVML, for people to read.
//
// The call can take seconds, or never return if a GPU is lost (nvml.h). Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/nvml.h"

namespace muster {

// A field is empty if the driver does not report it.
struct GpuReading {
  struct Process {
    std::int32_t pid = 0;
    std::optional<std::uint64_t> memory_bytes{};
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

// Call only after `library.begin()` has returned true. Returns an empty list if the driver reports no GPU.
std::vector<GpuReading> read_gpus(const Nvml& library);

}  // namespace muster
