// How a driver's answers, and missing ones, become a reading.
#include "common/base/gpu_reading.h"

#include <cstring>
#include <gmock/gmock.h>

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Two GPUs; the second one is lost.
Nvml driver() {
  Nvml nvml;
  nvml.count = [](unsigned* count) {
    *count = 2;
    return 0;
  };
  nvml.handle = [](unsigned index, Nvml::Device*) { return index == 0 ? 0 : Nvml::kGpuIsLost; };
  return nvml;
}

TEST(GpuReading, HoldsTheDriversAnswers) {
  Nvml nvml = driver();
  nvml.name = [](Nvml::Device, char* name, unsigned size) {
    std::strncpy(name, "NVIDIA H100", size);
    return 0;
  };
  nvml.utilization = [](Nvml::Device, Nvml::Utilization* rates) {
    *rates = {97, 30};
    return 0;
  };
  nvml.memory = [](Nvml::Device, Nvml::Memory* memory) {
    *memory = {80, 60, 20};
    return 0;
  };
  nvml.temperature = [](Nvml::Device, int, unsigned* celsius) {
    *celsius = 71;
    return 0;
  };
  nvml.power = [](Nvml::Device, unsigned* milliwatts) {
    *milliwatts = 650'500;
    return 0;
  };
  nvml.clock = [](Nvml::Device, int which, unsigned* mhz) {
    *mhz = which == Nvml::kSmClock ? 1755 : 2619;
    return 0;
  };
  nvml.throttle_reasons = [](Nvml::Device, unsigned long long* reasons) {
    *reasons = 0x1 | 0x4 | 0x40;  // idle does not count as a reason
    return 0;
  };
  nvml.processes = [](Nvml::Device, unsigned* count, Nvml::Process* processes) {
    *count = 2;
    processes[0] = {70, 12, 0, 0};
    processes[1] = {71, Nvml::kNotAvailable, 0, 0};
    return 0;
  };
  const auto readings = read_gpus(nvml);
  ASSERT_EQ(readings.size(), 1U);
  const GpuReading& gpu = readings[0];
  EXPECT_EQ(gpu.name, "NVIDIA H100");
  EXPECT_EQ(gpu.utilization_percent, 97);
  EXPECT_EQ(gpu.memory_total_bytes, 80U);
  EXPECT_EQ(gpu.memory_used_bytes, 20U);
  EXPECT_EQ(gpu.temperature_celsius, 71);
  EXPECT_EQ(gpu.power_watts, 650.5);
  EXPECT_EQ(gpu.sm_clock_mhz, 1755);
  EXPECT_EQ(gpu.memory_clock_mhz, 2619);
  EXPECT_THAT(gpu.throttle_reasons, ElementsAre("power cap", "hardware thermal slowdown"));
  ASSERT_EQ(gpu.processes.size(), 2U);
  EXPECT_EQ(gpu.processes[0].memory_bytes, 12U);
  EXPECT_EQ(gpu.processes[1].memory_bytes, std::nullopt);
}

TEST(GpuReading, IsEmptyIfTheDriverIsOldOrRefuses) {
  Nvml nvml = driver();
  nvml.power = [](Nvml::Device, unsigned*) { return 3; };
  const auto readings = read_gpus(nvml);
  ASSERT_EQ(readings.size(), 1U);
  EXPECT_EQ(readings[0].power_watts, std::nullopt);
  EXPECT_EQ(readings[0].utilization_percent, std::nullopt);
  EXPECT_THAT(readings[0].processes, IsEmpty());
}

}  // namespace
}  // namespace muster
