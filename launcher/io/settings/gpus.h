// Counts the NVIDIA GPUs that this machine's workers can see, with the driver's own library.
//
// The call loads the library, so that a job without GPUs does not pay for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster::launcher {

struct GpuCount {
  std::int32_t count = 0;
  std::string note;  // why the count is 0
};

// `visible`: CUDA_VISIBLE_DEVICES, if set; it limits the count.
GpuCount count_gpus(const std::optional<std::string>& visible);

}  // namespace muster::launcher
