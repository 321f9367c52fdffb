// The newest reading of this node's GPUs, for `launch top`.
//
// The library's calls may never return, so a separate thread makes them ("muster-gputop"). The first call of
// newest() starts the thread, which sleeps between calls. Nothing waits for it. newest() is for one thread.
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

  // Returns the reading that the previous call asked for (at first nothing), and asks for the next one.
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
