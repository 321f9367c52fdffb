// Asks the NVIDIA driver whether the GPU memory of killed workers is free again. A separate thread
// ("muster-gpumem") makes the driver's calls, and nothing waits for this thread.
//
// Make the object before the job has workers, because its thread first records how much memory is in use.
// Without NVIDIA's library held() is always "". Call all functions on one thread.
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

// The killed processes of each GPU, by the GPU's number.
using KilledOnGpus = std::map<unsigned, std::vector<pid_t>>;

class GpuMemoryWatch {
 public:
  GpuMemoryWatch();
  GpuMemoryWatch(const GpuMemoryWatch&) = delete;
  GpuMemoryWatch& operator=(const GpuMemoryWatch&) = delete;
  ~GpuMemoryWatch();

  // Call when these processes were killed: from now on held() is about their memory.
  void expect_back_from(KilledOnGpus killed);
  // Call when the first worker starts. If the thread has not yet recorded how much memory is in use, the
  // record is not used, because it can include the worker's memory.
  void workers_start();
  // Returns "" if all of this memory is free, or else how much is not, such as "12.5 GiB of GPU 3". Returns
  // nothing while the driver has not answered.
  std::optional<std::string> held() const;

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable asked;
    bool over = false;
    bool usable = true;
    bool workers_started = false;
    KilledOnGpus killed;  // not empty while the thread has something to check
    std::optional<std::string> held = "";
  };
  static void watch(const std::shared_ptr<Shared>& shared);
  static void give_up(Shared& shared);  // under the lock

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace muster::agent
