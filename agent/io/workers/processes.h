// The interfaces to the processes of one node: an attempt's workers, the template to fork them from, the
// processes that they leave behind, and the workers' reports.
//
// Agent carries out Node's actions through these interfaces. LocalProcesses is one implementation, the
// simulator has another. No function blocks. The listener is called in the order of events, and never inside
// begin(). One thread.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/health/worker_report.h"
#include "agent/core/node/node.h"
#include "agent/core/start/start_failure.h"

namespace muster::agent {

class ProcessListener {
 public:
  virtual ~ProcessListener() = default;
  // Reports that the worker was reaped. `exited` says how it ended and what is known about its memory. The
  // listener fills in the ranks, the GPU's fault and the last output.
  virtual void worker_ended(LocalRank local_rank, wire::WorkerExited exited) = 0;
  // Passes on a worker's report. It can be of any attempt, and the listener drops stale ones. `address`: for
  // messages to the worker; empty if it has none.
  virtual void worker_reported(const Report& report, const std::string& address) = 0;
  // Answers WorkerTalk::dump_stacks(): called once for each worker, unless the worker ends first.
  virtual void stacks_dumped(wire::WorkerStacks stacks) = 0;
  // Reports how much of the job's input its worker has taken. The last call comes before that worker's end.
  virtual void input_taken(const wire::InputTaken& taken) = 0;
  // Answers Processes::write_memory_out() with a remark for the user. Not called once the agent has left.
  virtual void memory_written(MemoryWritten written) = 0;
  // Reports that the template that was loading is ready or gone, or that a ready one is gone.
  virtual void template_settled() = 0;
  // Reports that a child of the agent has ended, perhaps one from Leftovers::find(). The kernel may give its
  // pid to another process now. Can be called several times for one end, and inside any call of these
  // interfaces except begin().
  virtual void leftover_ended(std::int32_t pid) = 0;
  // Reports that a process has ended that may have left others behind, or that was the last leftover.
  virtual void leftovers_changed() = 0;
};

// The attempt's program and its workers.
class Processes {
 public:
  struct MemoryTold {  // for wire::AttemptPrepared
    std::int32_t port = 0;
    std::vector<Rank> ranks{};
  };
  struct Started {
    std::int32_t pid = 0;
    bool forked = false;                 // from the template
    std::string executed_because{};      // why it was executed, if it might have been forked
    std::optional<std::uint32_t> gpu{};  // the number of its GPU, in a job with GPUs
  };

  virtual ~Processes() = default;
  // Call once, after Hello was sent. The listener must outlive this object's last call to it.
  virtual void begin(ProcessListener& listener) = 0;
  // Sets what all attempts have in common. Call again if the launcher sends another Welcome.
  virtual void set_job(const wire::JobSpec& job) = 0;
  // Checks whether the attempt's workers can start, and starts nothing. Call close() afterwards, also after
  // an error.
  virtual std::expected<void, StartFailure> open(const OpenAttempt& attempt) = 0;
  // Returns "" if this node sees the launcher's checkpoint directory, or else what is wrong, such as "is not
  // there" (wire::AttemptPrepared).
  virtual std::string other_checkpoints() const = 0;
  // Returns what to tell the launcher about the memory that outlives the workers.
  virtual MemoryTold memory_told() const = 0;
  // Starts a worker. Call in the order of the ranks. Fails with StartStep::kProgram if the file cannot be
  // executed.
  virtual std::expected<Started, StartFailure> start(LocalRank local_rank,
                                                     const wire::StartWorkers& start) = 0;
  // Passes input to the stdin of the worker that gets the job's input (JobSpec::input_rank). Drops the input
  // if that worker does not run.
  virtual void give_input(const wire::Input& input) = 0;
  // Calls input_taken(), inside this call, if that worker has read more than was reported.
  virtual void look_at_input() = 0;
  // Sends a signal to the process group of a worker. Has no effect once the worker's end was reported.
  virtual void signal(std::int32_t pid, std::int32_t signal) = 0;
  // Call when the attempt is over and none of its workers is running.
  virtual void close() = 0;
  // Writes the checkpoint in the memory of the newest attempt's workers to disk; memory_written() follows.
  // Call once, when no attempt follows.
  virtual void write_memory_out() = 0;
};

// The template: a process that has loaded the program once, and from which ranks are forked
// (docs/warm_start.md).
class TemplateHost {
 public:
  virtual ~TemplateHost() = default;
  // Loads the template for the open attempt. Returns whether it is loading now; if so, template_settled()
  // follows.
  virtual bool load() = 0;
  // Like load(), for a possible attempt.
  virtual bool load_for(const wire::PrepareAttempt& likely) = 0;
  // Kills a template that takes too long, and loads no other for the same program. No callback follows.
  virtual void give_up(const std::string& reason) = 0;
  // Call when the agent leaves. Kills the template and all processes that its program started, unless this
  // agent will serve another job.
  virtual void end() = 0;
};

// Processes that workers left behind.
class Leftovers {
 public:
  virtual ~Leftovers() = default;
  // Returns the agent's children that are neither workers nor its own helpers; nothing if they cannot be
  // listed. When a leftover dies, its children become leftovers.
  virtual std::optional<std::vector<std::int32_t>> find() = 0;
  // Kills the process. If the process may still become a Python resource tracker, kills it only once it has
  // not.
  virtual void kill(std::int32_t pid) = 0;
  // Kills the process once more, and returns its name and user.
  virtual Leftover kill_and_name(std::int32_t pid) = 0;
};

// Workers' reports, and requests to workers.
class WorkerTalk {
 public:
  struct Worker {
    Rank rank;
    std::int32_t pid = 0;
    std::string address{};  // for the request to write its stacks; empty: it cannot write them
  };

  virtual ~WorkerTalk() = default;
  // Passes on reports that have arrived but were not passed on yet.
  virtual void receive_waiting() = 0;
  // Asks the worker at this address to save and exit. Returns false if it cannot be reached.
  virtual bool preempt(const std::string& address, Duration grace) = 0;
  // Gets the stacks of these workers. stacks_dumped() follows for each of them within seconds, whatever the
  // worker does.
  virtual void dump_stacks(const std::vector<Worker>& workers) = 0;
};

}  // namespace muster::agent
