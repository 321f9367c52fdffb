// Collects the GPU faults that the NVIDIA driver reports through NVML. These are XID errors and uncorrectable
// memory errors.
//
// A separate thread ("muster-gpu") calls NVML. The calls can take seconds. If a GPU is lost, a call may never
// return. So nothing waits for this thread. If NVML or its functions for events are missing, no fault is
// seen, and the log says so. Call take() on one thread.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "agent/core/health/xid.h"

namespace muster::agent {

class GpuWatch {
 public:
  GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  // Returns the faults since the last call.
  std::vector<GpuFault> take();

 private:
  struct Shared {
    std::mutex mutex;
    std::vector<GpuFault> faults;
  };
  static void watch(const std::weak_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();  // the thread ends once this object is gone
};

}  // namespace muster::agent
