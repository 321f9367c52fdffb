// How the workers of one attempt are doing, from what they say and what was seen of them; what the launcher
// is to be told about it; and which of them can be asked for what.
//
// Of an agent's attempt, from its opening to its end. Decisions only: facts and the time are passed in. One
// thread.
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
    std::string gpu_fault{};  // the first that was not its program's
  };

  explicit WorkerHealth(const wire::JobSpec& job);

  void started(Rank rank, std::int32_t pid, std::optional<std::uint32_t> gpu, TimePoint now);
  // It is not expected to get on any more.
  void told_to_stop(Rank rank) { hang_.remove(rank); }
  void on(const Report& report, const std::string& address, TimePoint now);
  // For the user, and for the launcher of a GPU that is lost; told by the next look().
  void on(const std::vector<GpuFault>& faults, TimePoint now);
  // Adds to `exited` what is known of why.
  void ended(Rank rank, wire::WorkerExited& exited);

  // When next_deadline() has come, after the reports that wait. `output_waits`: workers were made to wait for
  // who takes their output; that is no hang.
  Messages look(const std::map<Rank, ProcessState>& states, bool output_waits, TimePoint now);
  std::optional<TimePoint> next_deadline() const { return hang_.next_deadline(); }

  // That run.
  const std::map<Rank, Worker>& workers() const { return workers_; }
  std::map<Rank, std::int32_t> pids() const;

 private:
  HangWatch hang_;
  std::map<Rank, Worker> workers_;
  Messages waiting_;  // that were found out while something else was asked
};

}  // namespace muster::agent
