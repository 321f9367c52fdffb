// Reads the state of this node's GPUs, for `launch top`.
//
// A separate thread ("muster-gputop") calls NVIDIA's library, because these calls may never return. Nothing
// waits for this thread. It reads the state only when newest() asks. Call newest() on one thread.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "common/base/gpu_reading.h"

namespace muster::agent {

class GpuReadings {
 public:
  GpuReadings();
  GpuReadings(const GpuReadings&) = delete;
  GpuReadings& operator=(const GpuReadings&) = delete;
  ~GpuReadings();

  // Returns the newest reading, and asks the thread for another one. The result is empty until the first
  // reading is complete.
  std::vector<GpuReading> newest();

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable asked;
    bool is_asked = false;
    bool over = false;
    std::vector<GpuReading> readings;
  };
  static void read(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace muster::agent
