// How the workers of one attempt are doing: looks at their processes once a second and has HangWatch judge;
// has their stacks written when the launcher asks; and keeps the evidence for why one died.
//
// The agent tells it who lives and what workers report, and sends on what it answers. A worker that said it
// can is asked for its stacks itself; of other Python programs py-spy shows them, where it is installed; for
// the rest, and for those that do not answer in time, the kernel's view of their threads must do. One thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "agent/core/health/hang_watch.h"
#include "agent/core/health/stack_dump.h"
#include "agent/io/health/gpu_watch.h"
#include "agent/io/health/memory_watch.h"
#include "agent/io/health/process_states.h"
#include "agent/io/health/py_spy.h"

namespace muster::agent {

class Health {
 public:
  struct Setting {
    wire::JobSpec job;
    Attempt attempt;
    GpuWatch* gpus = nullptr;  // of a job with GPUs
    // To a worker's address; false if it cannot be reached.
    std::function<bool(const std::string& receiver, const std::string& datagram)> send;
  };
  using Messages = std::vector<wire::ToLauncher>;

  explicit Health(Setting setting);

  struct Started {
    pid_t pid = 0;
    std::optional<std::uint32_t> gpu;
  };
  void started(Rank rank, const Started& worker, TimePoint now);
  // It is not expected to get on any more.
  void told_to_stop(Rank rank) { hang_.remove(rank); }
  // Adds to `exited` what is known of why.
  void ended(Rank rank, wire::WorkerExited& exited);
  Messages on(const Report& report, const std::string& sender, TimePoint now);
  // Of all workers.
  Messages dump_stacks(TimePoint now);
  // Passes the notice on to those that can save and leave.
  void preempt(Duration grace);
  // When next_deadline() has come, after the reports that wait.
  // `output_waits`: workers were made to wait for who takes their output; that is no hang.
  Messages look(TimePoint now, bool output_waits);
  std::optional<TimePoint> next_deadline() const;

 private:
  struct Worker {
    Started process;
    std::string address;  // of its newest datagram
    bool writes_stacks = false;
    bool can_be_preempted = false;
    std::string gpu_fault;  // the first that was not its program's
  };

  // What the driver has said since; for the user, and for the launcher of a GPU that is lost.
  void take_gpu_faults(TimePoint now);
  bool command(const Worker& worker, const std::string& datagram) const;
  // Why there will be no stacks of the program's own; nothing where they are on their way.
  std::optional<std::string> ask_for_stacks(Rank rank, const Worker& worker);
  void look_at_spies(TimePoint now, Messages& messages);
  std::string stacks_path(Rank rank) const;
  wire::WorkerStacks read_stacks(Rank rank) const;
  wire::WorkerStacks write_kernels_view(Rank rank, const std::string& reason) const;

  Setting setting_;
  HangWatch hang_;
  StackDump dump_;
  std::map<Rank, PySpy> spies_;  // that are at work
  TimePoint spies_looked_at_;
  ProcessStates states_;
  MemoryWatch memory_;
  std::map<Rank, Worker> workers_;
  Messages waiting_;  // that were found out while something else was asked
};

}  // namespace muster::agent
