// The state of one attempt's workers, from their reports and from what the agent observes: what to tell the
// launcher about it, and which worker supports which request.
//
// Lives from the opening of an attempt to its end. Decisions only: facts and the time are passed in. One
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/health/hang_watch.h"
#include "agent/core/health/still_watch.h"
#include "agent/core/health/xid.h"

namespace muster::agent {

class WorkerHealth {
 public:
  using Messages = std::vector<wire::ToLauncher>;
  struct Worker {
    std::int32_t pid = 0;
    std::optional<std::uint32_t> gpu{};
    std::string address{};  // of its newest datagram; empty if it has sent none
    bool writes_stacks = false;
    bool can_be_preempted = false;
    bool ran_last_line = false;  // as in wire::WorkerExited
    std::string gpu_fault{};     // the first fault of the GPU itself, not of the program
    TimePoint started_at{};
  };

  // `told_blindness`: an earlier attempt has told the user that the hang limit cannot work.
  explicit WorkerHealth(const wire::JobSpec& job, bool told_blindness = false);

  void started(Rank rank, std::int32_t pid, std::optional<std::uint32_t> gpu, TimePoint now);
  // The worker is no longer expected to make progress.
  void told_to_stop(Rank rank) {
    hang_.remove(rank);
    still_.remove(rank);
  }
  void on(const Report& report, const std::string& address, TimePoint now);
  // Returns remarks about the faults for the user, and, for the launcher, a stall of each worker whose GPU is
  // lost.
  Messages on(const std::vector<GpuFault>& faults, TimePoint now);
  // Adds to `exited` what is known about the cause.
  void ended(Rank rank, wire::WorkerExited& exited);

  // Call when next_deadline() has come, after the waiting reports were handled. `output_waits`: the workers
  // wait until their output is taken, which is not a hang.
  Messages look(const std::map<Rank, ProcessState>& states, bool output_waits, TimePoint now);
  // The processes whose main threads should be looked at now.
  std::map<Rank, std::int32_t> threads_to_see(TimePoint now) { return still_.due(pids(), now); }
  // Returns stalls and, once, a remark if the hang limit that the user gave cannot work.
  Messages on(const std::map<Rank, MainThread>& threads, TimePoint now);
  bool told_blindness() const { return told_blindness_; }
  // HangWatch::stopped(), to be sent before the stacks of workers that hang.
  Messages stopped(TimePoint now) const;
  std::optional<TimePoint> next_deadline() const { return hang_.next_deadline(); }

  // The running workers.
  const std::map<Rank, Worker>& workers() const { return workers_; }
  std::map<Rank, std::int32_t> pids() const;

 private:
  HangWatch hang_;
  StillWatch still_;
  Duration blind_for_;  // how long a rank may run unseen before a remark; zero: the user gave no limit
  bool told_blindness_;
  std::map<Rank, Worker> workers_;
};

}  // namespace muster::agent
