// GPU faults as the NVIDIA driver reports them: XID errors and uncorrectable memory errors, through NVML.
//
// The library is loaded when the first watch begins, not before. Its calls may take seconds, or, with a GPU
// that is lost, for ever: a thread of its own makes them ("muster-gpu"), which is never waited for. Without
// the library or its event functions nothing is seen, and the log says so. take() is for one thread.
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

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();  // the thread ends after this does
};

}  // namespace muster::agent
