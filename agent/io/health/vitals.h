// The interface to what the kernel and the GPU driver report about an attempt's workers. Tests replace it.
//
// The agent calls it once a second, and core/health decides what the facts mean. No function blocks. One
// thread.
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
  // Returns the state of each of these processes, which are the attempt's workers.
  virtual std::map<Rank, ProcessState> look(const std::map<Rank, std::int32_t>& pids) = 0;
  // Begins to look at the main threads of those processes that run Python. Returns the results of earlier
  // looks that have ended in the meantime. If a look takes too long, it is given up.
  virtual std::map<Rank, MainThread> look_at_threads(const std::map<Rank, std::int32_t>& pids) = 0;
  // Returns the faults that the driver has reported since the last call.
  virtual std::vector<GpuFault> take_gpu_faults() = 0;
  // Returns how much GPU memory of killed workers is not free yet, for example "12.5 GiB of GPU 3". Returns
  // "" if all of it is free. Returns nothing if the driver has not answered yet.
  virtual std::optional<std::string> held_gpu_memory() = 0;
  // Returns the resources that each of these workers uses now. The numbers about GPUs come from the driver's
  // last answer.
  virtual std::vector<wire::RankUsage> usage(const std::map<Rank, WorkerHealth::Worker>& workers) = 0;
};

}  // namespace muster::agent
