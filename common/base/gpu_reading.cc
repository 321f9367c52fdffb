#include "common/base/gpu_reading.h"

#include <utility>

#include "common/base/machine.h"

namespace muster {
namespace {

constexpr unsigned kMostGpuProcesses = 1024;
constexpr unsigned kGpuNameBytes = 96;

// These bits of nvmlClocksThrottleReasons (nvml.h) give the reasons why a GPU is slow. Two bits are left out:
// the one for an idle GPU, and the one for clocks that a user has set.
constexpr std::pair<unsigned long long, const char*> kThrottleReasons[] = {
    {0x4, "power cap"},         {0x8, "hardware slowdown"},          {0x10, "sync boost"},
    {0x20, "thermal slowdown"}, {0x40, "hardware thermal slowdown"}, {0x80, "power brake"}};

template <class Value>
std::optional<Value> asked(int (*function)(Nvml::Device, unsigned*), Nvml::Device device, double scale = 1) {
  unsigned value = 0;
  if (function == nullptr || function(device, &value) != Nvml::kSuccess) return std::nullopt;
  return static_cast<Value>(value * scale);
}

std::optional<int> asked(int (*function)(Nvml::Device, int, unsigned*), Nvml::Device device, int which) {
  unsigned value = 0;
  if (function == nullptr || function(device, which, &value) != Nvml::kSuccess) return std::nullopt;
  return static_cast<int>(value);
}

std::vector<GpuReading::Process> processes_on(const Nvml& library, Nvml::Device device) {
  std::vector<Nvml::Process> found(kMostGpuProcesses);
  unsigned count = kMostGpuProcesses;
  if (library.processes == nullptr || library.processes(device, &count, found.data()) != Nvml::kSuccess)
    count = 0;
  found.resize(count);
  std::vector<GpuReading::Process> processes;
  for (const Nvml::Process& each : found) {
    processes.push_back({.pid = static_cast<std::int32_t>(each.pid)});
    if (each.used_bytes != Nvml::kNotAvailable) processes.back().memory_bytes = each.used_bytes;
  }
  return processes;
}

GpuReading memory_on(const Nvml& library, Nvml::Device device, unsigned index) {
  GpuReading reading{.index = index};
  Nvml::Memory memory{};
  if (library.memory != nullptr && library.memory(device, &memory) == Nvml::kSuccess) {
    reading.memory_used_bytes = memory.used;
    reading.memory_total_bytes = memory.total;
  }
  reading.processes = processes_on(library, device);
  return reading;
}

// Returns a reading of the memory of each GPU that answers. `add` adds to the reading.
template <class Add>
std::vector<GpuReading> read_each(const Nvml& library, const Add& add) {
  std::vector<GpuReading> readings;
  unsigned count = 0;
  if (library.count(&count) != Nvml::kSuccess) return readings;
  for (unsigned index = 0; index < count; ++index) {
    Nvml::Device device = nullptr;
    if (library.handle(index, &device) != Nvml::kSuccess) continue;
    readings.push_back(memory_on(library, device, index));
    add(device, readings.back());
  }
  return readings;
}

}  // namespace

std::int32_t gpus_of_driver() {
  if (!may_have_nvidia_driver()) return 0;
  const Nvml nvml = Nvml::load();
  unsigned count = 0;
  return nvml.begin() && nvml.count(&count) == Nvml::kSuccess ? static_cast<std::int32_t>(count) : 0;
}

std::vector<GpuReading> read_gpu_memory(const Nvml& library) {
  return read_each(library, [](Nvml::Device /*device*/, GpuReading& /*reading*/) {});
}

std::vector<GpuReading::Process> processes_on_gpu(const Nvml& library, unsigned index) {
  Nvml::Device device = nullptr;
  if (library.handle(index, &device) != Nvml::kSuccess) return {};
  return processes_on(library, device);
}

std::vector<GpuReading> read_gpus(const Nvml& library) {
  return read_each(library, [&library](Nvml::Device device, GpuReading& reading) {
    char name[kGpuNameBytes] = "";
    if (library.name != nullptr && library.name(device, name, kGpuNameBytes) == Nvml::kSuccess)
      reading.name = name;
    Nvml::Utilization utilization{};
    if (library.utilization != nullptr && library.utilization(device, &utilization) == Nvml::kSuccess)
      reading.utilization_percent = static_cast<int>(utilization.gpu);
    reading.temperature_celsius = asked(library.temperature, device, 0);
    reading.power_watts = asked<double>(library.power, device, 1e-3);
    reading.sm_clock_mhz = asked(library.clock, device, Nvml::kSmClock);
    reading.memory_clock_mhz = asked(library.clock, device, Nvml::kMemoryClock);
    unsigned long long reasons = 0;
    if (library.throttle_reasons != nullptr && library.throttle_reasons(device, &reasons) == Nvml::kSuccess) {
      for (const auto& [bit, reason] : kThrottleReasons)
        if ((reasons & bit) != 0) reading.throttle_reasons.emplace_back(reason);
    }
  });
}

}  // namespace muster
