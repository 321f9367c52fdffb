// GPU faults that the NVIDIA driver reports: XID errors and uncorrectable memory errors, through NVML.
//
// The first GpuWatch loads the library. The library's calls can take seconds, or never return if a GPU is
// lost, so a separate thread ("muster-gpu") makes them. Nothing waits for that thread. Without the library or
// its event functions no fault is seen, and the log says so. take() is for one thread.
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

  // The faults since the last call.
  std::vector<GpuFault> take();

 private:
  struct Shared {
    std::mutex mutex;
    std::vector<GpuFault> faults;
  };
  static void watch(const std::weak_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();  // the thread ends once this is gone
};

}  // namespace muster::agent
