#include <muster/rank/gpu_usage.h>
#include <utility>

#include "common/base/gpu_reading.h"
#include "common/base/machine.h"

namespace muster {

std::vector<GpuUsage> gpu_usage() {
  // The library is loaded once and never unloaded, because NVML's own threads may still run its code.
  static const Nvml library = may_have_nvidia_driver() ? Nvml::load() : Nvml();
  static const bool usable = library.begin();
  std::vector<GpuUsage> all;
  if (!usable) return all;
  for (GpuReading& each : read_gpus(library)) {
    GpuUsage usage{.index = each.index,
                   .name = std::move(each.name),
                   .utilization_percent = each.utilization_percent,
                   .memory_used_bytes = each.memory_used_bytes,
                   .memory_total_bytes = each.memory_total_bytes,
                   .temperature_celsius = each.temperature_celsius,
                   .power_watts = each.power_watts,
                   .sm_clock_mhz = each.sm_clock_mhz,
                   .memory_clock_mhz = each.memory_clock_mhz,
                   .throttle_reasons = std::move(each.throttle_reasons)};
    for (const GpuReading::Process& process : each.processes)
      usage.processes.push_back({process.pid, process.memory_bytes});
    all.push_back(std::move(usage));
  }
  return all;
}

}  // namespace muster
