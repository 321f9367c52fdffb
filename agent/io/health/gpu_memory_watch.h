// Asks the NVIDIA driver whether the GPU memory of killed workers is free again. A separate thread
// ("muster-gpumem") makes the calls to the driver, and nothing waits for this thread.
//
// The thread first calls the driver when workers were killed, so the first start of a job costs nothing. If
// NVIDIA's library is not installed, held() returns "". Call all functions on one thread.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "agent/core/health/gpu_memory.h"

namespace muster::agent {

// The processes that were killed, for each GPU. The keys are the numbers of the GPUs.
using KilledOnGpus = std::map<unsigned, std::vector<pid_t>>;

class GpuMemoryWatch {
 public:
  GpuMemoryWatch();
  GpuMemoryWatch(const GpuMemoryWatch&) = delete;
  GpuMemoryWatch& operator=(const GpuMemoryWatch&) = delete;
  ~GpuMemoryWatch();

  // Call this after these processes were killed. From then on held() tells how much of their memory is not
  // free yet.
  void expect_back_from(KilledOnGpus killed);
  // Returns "" if all memory of the killed processes is free. Otherwise returns how much is not free, for
  // example "12.5 GiB of GPU 3". Returns nothing if the driver has not answered yet.
  std::optional<std::string> held() const;

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable asked;
    bool over = false;
    bool usable = true;
    KilledOnGpus killed;  // not empty while the thread has something to check
    std::optional<std::string> held = "";
  };
  static void watch(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace muster::agent
