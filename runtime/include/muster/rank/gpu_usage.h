// The state of this machine's GPUs, as the NVIDIA driver reports it: for a training that logs it, or checks
// whether its data arrives too slowly.
//
//   for (const auto& gpu : muster::gpu_usage())
//     logger.add_scalar(fmt::format("gpu{}/percent", gpu.index), gpu.utilization_percent.value_or(0), step);
//
// `launch top` shows the same for all nodes. gpu_usage() also works before init(). Any thread can call it. A
// call takes some milliseconds; the first call takes longer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// If the driver does not report a field, the field is empty.
struct GpuUsage {
  struct Process {
    std::int32_t pid = 0;
    std::optional<std::uint64_t> memory_bytes{};
  };
  unsigned index = 0;  // the driver's number, from 0; ignores CUDA_VISIBLE_DEVICES
  std::string name{};
  std::optional<int> utilization_percent{};  // share of the time in which a kernel ran
  std::uint64_t memory_used_bytes = 0;       // by all processes
  std::uint64_t memory_total_bytes = 0;
  std::optional<int> temperature_celsius{};
  std::optional<double> power_watts{};
  std::optional<int> sm_clock_mhz{};
  std::optional<int> memory_clock_mhz{};
  std::vector<std::string> throttle_reasons{};  // why its clocks are reduced: "power cap"
  std::vector<Process> processes{};             // processes that compute
};

// Returns an entry for each GPU. If there is no driver, returns an empty vector.
std::vector<GpuUsage> gpu_usage();

}  // namespace muster
