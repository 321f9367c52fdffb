// Gets the stacks of an attempt's workers. The stacks of each worker are written to a file next to the
// worker's logs. The class Stacks has them written, and then reads the file:
//
// - If the worker has said that it can write its own stacks, the class asks the worker to do so.
// - Otherwise the class starts py-spy or eu-stack, which writes them.
// - If the program is not installed, or if no answer comes in time, the class itself writes what the kernel
//   says about the worker's threads.
//
// No function blocks. One thread.
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
  // Sends a datagram to the address of a worker. Returns false if the worker cannot be reached.
  using SendDatagram = std::function<bool(const std::string& address, const std::string& datagram)>;
  using Told = std::vector<wire::WorkerStacks>;

  Stacks(wire::JobSpec job, Attempt attempt, SendDatagram send)
      : job_(std::move(job)), attempt_(attempt), send_(std::move(send)) {}

  // Starts to get the stacks of these workers. Returns the stacks that are available at once. Later, on() and
  // look() return the others. Call look() when next_deadline() has come.
  Told dump(const std::vector<WorkerTalk::Worker>& workers, TimePoint now);
  // Handles a report of the attempt, of any kind. If the report says that the worker's stacks have been
  // written, returns them.
  Told on(const Report& report);
  void ended(Rank rank);
  Told look(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

 private:
  // Asks a worker for its stacks, or starts a program that reads them. If neither works, returns the reason.
  // Otherwise returns nothing.
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
