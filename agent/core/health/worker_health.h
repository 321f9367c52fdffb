// Keeps the state of one attempt's workers. It learns the state from the reports of the workers and from the
// agent's observations. It decides which messages about the workers the launcher gets, and knows which worker
// supports which request.
//
// The object lives from the opening of an attempt to its end. It only decides: the facts and the time are
// passed in. One thread.
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

  // `told_blindness` says that an earlier attempt has already sent the remark that the hang limit cannot
  // work. Then this object does not send it again.
  explicit WorkerHealth(const wire::JobSpec& job, bool told_blindness = false);

  void started(Rank rank, std::int32_t pid, std::optional<std::uint32_t> gpu, TimePoint now);
  // Call this when the worker was told to stop. From then on nobody expects it to make progress.
  void told_to_stop(Rank rank) {
    hang_.remove(rank);
    still_.remove(rank);
  }
  void on(const Report& report, const std::string& address, TimePoint now);
  // Returns a remark for the user for each fault. If a worker's GPU is lost, also returns a hard stall of
  // that worker.
  Messages on(const std::vector<GpuFault>& faults, TimePoint now);
  // Call this when the worker has ended. Adds two facts to `exited`: the fault of the worker's GPU, and
  // whether the worker's script ran to its end.
  void ended(Rank rank, wire::WorkerExited& exited);

  // Call this when next_deadline() has come. First handle the reports that are waiting. `output_waits` says
  // that the workers wait until their output is taken. Such time does not count as a hang.
  Messages look(const std::map<Rank, ProcessState>& states, bool output_waits, TimePoint now);
  // Returns the processes that are due for a look. The caller should then look at their main threads.
  std::map<Rank, std::int32_t> threads_to_see(TimePoint now) { return still_.due(pids(), now); }
  // Takes what the looks at the main threads have shown, and returns stalls. If the hang limit that the user
  // gave cannot work, it also returns a remark about that, once.
  Messages on(const std::map<Rank, MainThread>& threads, TimePoint now);
  bool told_blindness() const { return told_blindness_; }
  // Returns the same stalls as HangWatch::stopped(), as messages. Send them before the stacks of workers that
  // hang.
  Messages stopped(TimePoint now) const;
  std::optional<TimePoint> next_deadline() const { return hang_.next_deadline(); }

  // The running workers.
  const std::map<Rank, Worker>& workers() const { return workers_; }
  std::map<Rank, std::int32_t> pids() const;

 private:
  HangWatch hang_;
  StillWatch still_;
  Duration blind_for_;  // after this time comes the remark that a rank cannot be seen; zero: never
  bool told_blindness_;
  std::map<Rank, Worker> workers_;
};

}  // namespace muster::agent
