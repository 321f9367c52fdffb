// The seam to what the kernel and the GPU driver report about an attempt's workers.
//
// Facts only, read once a second; core/health decides what they mean. Nothing here waits. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/health/hang_watch.h"
#include "agent/core/health/still_watch.h"
#include "agent/core/health/worker_health.h"
#include "agent/core/health/xid.h"

namespace muster::agent {

class Vitals {
 public:
  virtual ~Vitals() = default;
  // The state of each of these processes, which are the attempt's workers.
  virtual std::map<Rank, ProcessState> look(const std::map<Rank, std::int32_t>& pids) = 0;
  // Begins to look at the main threads of these processes, if they run Python. Returns the results of earlier
  // looks that have ended by now. Gives up a look that takes too long.
  virtual std::map<Rank, MainThread> look_at_threads(const std::map<Rank, std::int32_t>& pids) = 0;
  // The faults that the driver has reported since the last call.
  virtual std::vector<GpuFault> take_gpu_faults() = 0;
  // GPU memory of killed workers that is not yet free: "12.5 GiB of GPU 3"; "" if all is free. Returns
  // nothing while the driver has not answered.
  virtual std::optional<std::string> held_gpu_memory() = 0;
  // The resources that these workers use now; for their GPUs, the driver's last answer.
  virtual std::vector<wire::RankUsage> usage(const std::map<Rank, WorkerHealth::Worker>& workers) = 0;
};

}  // namespace muster::agent
