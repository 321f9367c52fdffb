// The seam to what the kernel and the GPU driver show of an attempt's workers.
//
// Facts only, asked for once a second; what they mean is decided in core/health. Nothing here waits. One
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/health/hang_watch.h"
#include "agent/core/health/worker_health.h"
#include "agent/core/health/xid.h"

namespace muster::agent {

class Vitals {
 public:
  virtual ~Vitals() = default;
  // Whether each of these processes, the attempt's workers, runs.
  virtual std::map<Rank, ProcessState> look(const std::map<Rank, std::int32_t>& pids) = 0;
  // What the driver has said since the last call.
  virtual std::vector<GpuFault> take_gpu_faults() = 0;
  // GPU memory of workers that were killed and that is not free yet: "12.5 GiB of GPU 3"; "" if all is.
  // Nothing while the driver has not answered.
  virtual std::optional<std::string> held_gpu_memory() = 0;
  // What these workers use now; of their GPUs what the driver said when it was asked last.
  virtual std::vector<wire::RankUsage> usage(const std::map<Rank, WorkerHealth::Worker>& workers) = 0;
};

}  // namespace muster::agent
