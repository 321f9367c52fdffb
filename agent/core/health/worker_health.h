// How the workers of one attempt are doing, by what they say and what is seen of them; what the launcher is
// to be told about that; and which worker can be asked for what.
//
// Made when an attempt is opened, and gone when it is over. Decisions only: facts and the time are passed in.
// One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/health/hang_watch.h"
#include "agent/core/health/xid.h"

namespace muster::agent {

class WorkerHealth {
 public:
  using Messages = std::vector<wire::ToLauncher>;
  struct Worker {
    std::int32_t pid = 0;
    std::optional<std::uint32_t> gpu{};
    std::string address{};  // of its newest datagram; empty if it has none
    bool writes_stacks = false;
    bool can_be_preempted = false;
    std::string gpu_fault{};  // the first fault that was the GPU's, not the program's
  };

  explicit WorkerHealth(const wire::JobSpec& job);

  void started(Rank rank, std::int32_t pid, std::optional<std::uint32_t> gpu, TimePoint now);
  // The worker is not expected to get on any more.
  void told_to_stop(Rank rank) { hang_.remove(rank); }
  void on(const Report& report, const std::string& address, TimePoint now);
  // Returns what tells the user of the faults, and the launcher of a worker whose GPU is lost.
  Messages on(const std::vector<GpuFault>& faults, TimePoint now);
  // Adds to `exited` what is known of the cause.
  void ended(Rank rank, wire::WorkerExited& exited);

  // To be called when next_deadline() has come, after the reports that wait. `output_waits`: workers were
  // made to wait for a taker of their output, which is no hang.
  Messages look(const std::map<Rank, ProcessState>& states, bool output_waits, TimePoint now);
  // HangWatch::stopped(): what is told before the stacks of workers that hang.
  Messages stopped(TimePoint now) const;
  std::optional<TimePoint> next_deadline() const { return hang_.next_deadline(); }

  // The workers that run.
  const std::map<Rank, Worker>& workers() const { return workers_; }
  std::map<Rank, std::int32_t> pids() const;

 private:
  HangWatch hang_;
  std::map<Rank, Worker> workers_;
};

}  // namespace muster::agent
