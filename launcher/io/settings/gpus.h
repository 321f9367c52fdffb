// How many NVIDIA GPUs this machine's workers can see, asked of the driver's own library.
//
// The library is loaded when called and not before: a job without GPUs pays nothing for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster::launcher {

struct GpuCount {
  std::int32_t count = 0;
  std::string note;  // why there are none
};

// `visible`: CUDA_VISIBLE_DEVICES, if set, which limits the count.
GpuCount count_gpus(const std::optional<std::string>& visible);

}  // namespace muster::launcher
