// Computes how much GPU memory killed processes still hold.
//
// When a process has ended, the driver frees its memory some time later. If it is a lot of memory, this may
// take seconds. An attempt that starts in that time would find too little memory. Only memory that the driver
// lists for the killed processes counts. Pure.
#pragma once

#include <cstdint>
#include <sys/types.h>
#include <vector>

#include "common/base/gpu_reading.h"

namespace muster::agent {

// Stands for the memory of a process that the driver lists without its use.
constexpr std::uint64_t kUnknownGpuBytes = std::uint64_t{64} << 20;

// Returns how many bytes the `killed` processes hold. If none of them is listed, returns 0.
std::uint64_t held_bytes(const std::vector<GpuReading::Process>& listed, const std::vector<pid_t>& killed);

}  // namespace muster::agent
