// Counts the NVIDIA GPUs that workers on this machine can see. It asks the library of the NVIDIA driver.
//
// The library is loaded only when count_gpus() is called. So a job without GPUs does not pay for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster::launcher {

struct GpuCount {
  std::int32_t count = 0;
  std::string note;  // why the count is 0
};

// `visible` is the value of CUDA_VISIBLE_DEVICES, if that is set. It limits the count.
GpuCount count_gpus(const std::optional<std::string>& visible);

}  // namespace muster::launcher
