// The resources that a rank uses, as its agent has measured them.
//
// Sent in a Pong.
#pragma once

#include <cstdint>

#include "common/base/ids.h"

namespace muster::wire {

// -1: unknown.
struct RankUsage {
  Rank rank;
  std::int64_t cpu_ns = 0;  // processor time of the worker's process since its start
  std::int64_t age_ns = 0;  // time since the start of the process
  std::int64_t memory_bytes = 0;
  std::int32_t gpu = -1;  // NVML's number of the GPU; the fields below are about the whole GPU
  std::int32_t gpu_percent = -1;
  std::int64_t gpu_memory_bytes = -1;
  std::int64_t gpu_memory_total_bytes = -1;
  std::int32_t gpu_celsius = -1;
  std::int32_t gpu_watts = -1;
  bool operator==(const RankUsage&) const = default;
};

}  // namespace muster::wire
