// Gets the stacks of an attempt's workers: has each worker's stacks written to a file next to the worker's
// logs, and reads the file.
//
// Asks a worker to write its own stacks if the worker has said that it can. For other workers uses py-spy or
// eu-stack. If that is not installed, or if a worker does not answer in time, uses the kernel's view of its
// threads. Nothing here waits. One thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/health/stack_dump.h"
#include "agent/core/health/worker_report.h"
#include "agent/io/health/spy.h"
#include "agent/io/workers/processes.h"

namespace muster::agent {

class Stacks {
 public:
  // Sends a datagram to a worker's address; false if it cannot be reached.
  using SendDatagram = std::function<bool(const std::string& address, const std::string& datagram)>;
  using Told = std::vector<wire::WorkerStacks>;

  Stacks(wire::JobSpec job, Attempt attempt, SendDatagram send)
      : job_(std::move(job)), attempt_(attempt), send_(std::move(send)) {}

  // Returns the stacks that are available at once. on() returns the others, or look() when next_deadline()
  // has come.
  Told dump(const std::vector<WorkerTalk::Worker>& workers, TimePoint now);
  // Handles any report of the attempt: reads the stacks if the report says that they have been written.
  Told on(const Report& report);
  void ended(Rank rank);
  Told look(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

 private:
  // Asks a worker for its own stacks. Returns nothing if they will come, otherwise why they will not.
  std::optional<std::string> ask(const WorkerTalk::Worker& worker);
  void look_at_spies(TimePoint now, Told& told);
  std::string path_of(Rank rank) const;
  wire::WorkerStacks read(Rank rank) const;
  wire::WorkerStacks write_kernels_view(Rank rank, const std::string& reason) const;

  wire::JobSpec job_;
  Attempt attempt_;
  SendDatagram send_;
  StackDump dump_;
  std::map<Rank, pid_t> pids_;  // of the workers whose stacks are wanted
  std::map<Rank, Spy> spies_;   // those that still run
  TimePoint spies_looked_at_;
};

}  // namespace muster::agent
