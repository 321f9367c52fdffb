// Whether killed workers' GPU memory is back: asks the NVIDIA driver, on a thread of its own
// ("muster-gpumem") that is never waited for.
//
// Notes what is in use when it is made, before the job has workers. Without the library nothing is ever held.
// All functions are for one thread.
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

// The processes that were killed, by the number of their GPU.
using KilledOnGpus = std::map<unsigned, std::vector<pid_t>>;

class GpuMemoryWatch {
 public:
  GpuMemoryWatch();
  GpuMemoryWatch(const GpuMemoryWatch&) = delete;
  GpuMemoryWatch& operator=(const GpuMemoryWatch&) = delete;
  ~GpuMemoryWatch();

  // From now on held() is about the memory of these processes.
  void expect_back_from(KilledOnGpus killed);
  // The first worker starts: memory that is in use from here on may be the job's own.
  void workers_start();
  // "" if all is free, else what is not: "12.5 GiB of GPU 3". Nothing while the driver has not answered yet.
  std::optional<std::string> held() const;

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable asked;
    bool over = false;
    bool usable = true;
    bool workers_started = false;
    KilledOnGpus killed;  // not empty while the thread has to look
    std::optional<std::string> held = "";
  };
  static void watch(const std::shared_ptr<Shared>& shared);
  static void give_up(Shared& shared);  // under the lock

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace muster::agent
