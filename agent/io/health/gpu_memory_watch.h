// Asks the NVIDIA driver whether the GPU memory of killed workers is free again, on a separate thread
// ("muster-gpumem") that nothing waits for.
//
// The constructor records the memory in use, before the job has workers. Without NVIDIA's library held() is
// always "". All functions are for one thread.
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

// The killed processes, by the number of their GPU.
using KilledOnGpus = std::map<unsigned, std::vector<pid_t>>;

class GpuMemoryWatch {
 public:
  GpuMemoryWatch();
  GpuMemoryWatch(const GpuMemoryWatch&) = delete;
  GpuMemoryWatch& operator=(const GpuMemoryWatch&) = delete;
  ~GpuMemoryWatch();

  // From now on held() is about the memory of these processes.
  void expect_back_from(KilledOnGpus killed);
  // Call when the first worker starts. If the driver has not answered the constructor yet, its answer is not
  // used, because it can include the worker's memory.
  void workers_start();
  // Returns "" if all memory is free, otherwise what is held: "12.5 GiB of GPU 3". Returns nothing while the
  // driver has not answered.
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
