// Counts the NVIDIA GPUs that workers on this machine can see. It asks the library of the NVIDIA driver.
//
// The library is loaded only when count_gpus() is called. So a job without GPUs does not pay for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/settings/plan.h"

namespace muster::launcher {

struct GpuCount {
  std::int32_t count = 0;
  std::string note;  // why the count is 0
};

// `visible` is the value of CUDA_VISIBLE_DEVICES, if that is set. It limits the count.
GpuCount count_gpus(const std::optional<std::string>& visible);

// Returns the GPUs that processes of other users fill. Processes that cannot be seen from here, for example
// from within a container, do not count. Returns nothing if the driver does not answer. Call it only where
// count_gpus() has found GPUs.
std::optional<std::vector<GpuInUse>> gpus_in_use();

}  // namespace muster::launcher
