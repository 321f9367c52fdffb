// Observes the state of this node's workers. The information comes from /proc, from the workers' control
// groups and from the NVIDIA driver.
//
// Call all functions on one thread. Separate threads call the driver, and nothing waits for them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "agent/io/health/gpu_memory_watch.h"
#include "agent/io/health/gpu_readings.h"
#include "agent/io/health/gpu_watch.h"
#include "agent/io/health/main_threads.h"
#include "agent/io/health/memory_watch.h"
#include "agent/io/health/process_states.h"
#include "agent/io/health/vitals.h"

namespace muster::agent {

class LocalVitals final : public Vitals {
 public:
  LocalVitals();
  std::map<Rank, ProcessState> look(const std::map<Rank, std::int32_t>& pids) override;
  std::map<Rank, MainThread> look_at_threads(const std::map<Rank, std::int32_t>& pids) override {
    return attempt_->threads.look(pids);
  }
  std::vector<GpuFault> take_gpu_faults() override;
  std::optional<std::string> held_gpu_memory() override;
  std::vector<wire::RankUsage> usage(const std::map<Rank, WorkerHealth::Worker>& workers) override;

  // Begins to watch the GPUs. Only the first call has an effect.
  void watch_gpus();
  void attempt_opens();
  // Call this when a worker was reaped. If SIGKILL has ended the worker, the function looks for evidence that
  // memory ran out, and adds this evidence to `exited`.
  void worker_ended(wire::WorkerExited& exited, std::optional<std::uint32_t> gpu);
  void attempt_is_over();

 private:
  const std::string& mountinfo_;                // of /proc/self
  std::unique_ptr<GpuWatch> gpus_;              // null in a job without GPUs
  std::unique_ptr<GpuMemoryWatch> gpu_memory_;  // null in a job without GPUs
  std::unique_ptr<GpuReadings> gpu_readings_;   // null without GPUs, and until the first usage()
  bool lacks_driver_ = false;                   // a job with GPUs found no driver; to be logged
  KilledOnGpus killed_on_gpus_;                 // in the current attempt; for gpu_memory_
  struct OfAttempt {
    ProcessStates states;
    MemoryWatch memory;
    MainThreads threads{};
  };
  std::optional<OfAttempt> attempt_;
};

}  // namespace muster::agent
