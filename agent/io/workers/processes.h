// The interfaces to the processes of one node: the workers of an attempt, the template from which they can be
// forked, the processes that they leave behind, and the workers' reports.
//
// Agent uses these interfaces to carry out Node's actions. LocalProcesses is one implementation; the
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
  // Reports that the worker was reaped. `exited` says how it ended, and what is known about its memory. The
  // listener adds the rank, the fault of the GPU and the last output.
  virtual void worker_ended(LocalRank local_rank, wire::WorkerExited exited) = 0;
  // Passes on a report of a worker. It can belong to any attempt, and the listener drops stale reports.
  // `address` is for messages to the worker. It is empty if the worker has none.
  virtual void worker_reported(const Report& report, const std::string& address) = 0;
  // Answers WorkerTalk::dump_stacks(): called once for each worker, unless the worker ends first.
  virtual void stacks_dumped(wire::WorkerStacks stacks) = 0;
  // Only one worker gets the job's input. This call reports how much of it the worker has taken. The last
  // such call comes before the worker's end is reported.
  virtual void input_taken(const wire::InputTaken& taken) = 0;
  // Answers Processes::write_memory_out() with a remark for the user. Once the agent has left, this call no
  // longer comes.
  virtual void memory_written(MemoryWritten written) = 0;
  // Reports that a template is no longer loading, because it is ready or gone. Also reports that a template
  // that was ready is gone.
  virtual void template_settled() = 0;
  // Reports that a child of the agent has ended. It may be one that Leftovers::find() returned. From now on
  // the kernel may give its pid to another process. The end of one child can be reported several times. The
  // report can come inside any call of these interfaces except begin().
  virtual void leftover_ended(std::int32_t pid) = 0;
  // Reports that a process has ended. Either it was the last leftover, or it may have left other processes
  // behind.
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
  // Call this once, after Hello was sent. The listener must outlive the last call that this object makes to
  // it.
  virtual void begin(ProcessListener& listener) = 0;
  // Sets the facts about the job that are the same for all attempts. Call this again if the launcher sends
  // another Welcome.
  virtual void set_job(const wire::JobSpec& job) = 0;
  // Checks whether the attempt's workers can start. Starts no worker. Call close() in the end, even if this
  // function has returned an error.
  virtual std::expected<void, StartFailure> open(const OpenAttempt& attempt) = 0;
  // Returns "" if this node sees the launcher's checkpoint directory. Otherwise returns the reason, for
  // example "is not there" (wire::AttemptPrepared).
  virtual std::string other_checkpoints() const = 0;
  // Returns the facts that the launcher has to know about the memory that outlives the workers.
  virtual MemoryTold memory_told() const = 0;
  // Starts a worker. Call this in the order of the ranks. If the file cannot be executed, the error has
  // StartStep::kProgram.
  virtual std::expected<Started, StartFailure> start(LocalRank local_rank,
                                                     const wire::StartWorkers& start) = 0;
  // Passes input to the stdin of one worker, the one that JobSpec::input_rank names. If that worker does not
  // run, the input is dropped.
  virtual void give_input(const wire::Input& input) = 0;
  // Looks at the worker that gets the job's input. If it has read more than was reported, input_taken() is
  // called before this function returns.
  virtual void look_at_input() = 0;
  // Sends a signal to the process group of a worker. Once the worker's end was reported, this has no effect.
  virtual void signal(std::int32_t pid, std::int32_t signal) = 0;
  // Call this when the attempt is over and none of its workers is running any more.
  virtual void close() = 0;
  // Writes the checkpoint of the newest attempt to disk, if its workers have left one in memory.
  // memory_written() is called later. Call this once, when no attempt follows.
  virtual void write_memory_out() = 0;
};

// The template: a process that has loaded the program once, and from which ranks are forked
// (docs/warm_start.md).
class TemplateHost {
 public:
  virtual ~TemplateHost() = default;
  // Begins to load the template for the open attempt. Returns whether it is loading now. If it is,
  // template_settled() is called later.
  virtual bool load() = 0;
  // Does the same as load(), but for an attempt that may come, and is not open yet.
  virtual bool load_for(const wire::PrepareAttempt& likely) = 0;
  // Call this if the template takes too long to load. It is killed, and no other template is loaded for the
  // same program. template_settled() is not called.
  virtual void give_up(const std::string& reason) = 0;
  // Call this when the agent leaves. It kills the template and all processes that the template's program has
  // started. But if this agent will serve another job, it kills nothing.
  virtual void end() = 0;
};

// Processes that workers left behind.
class Leftovers {
 public:
  virtual ~Leftovers() = default;
  // Returns those children of the agent that are neither workers nor its own helpers. Returns nothing if the
  // children cannot be listed. When a leftover dies, its children become leftovers.
  virtual std::optional<std::vector<std::int32_t>> find() = 0;
  // Kills the process. But if the process is a Python resource tracker, it first gets time to clean up. A
  // process that has just begun may still become a tracker. Such a process is killed later, when it is clear
  // that it has not become one.
  virtual void kill(std::int32_t pid) = 0;
  // Kills the process once more. Returns its name and its user.
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
  // Receives the reports that have arrived, and passes them on.
  virtual void receive_waiting() = 0;
  // Asks the worker at this address to save and exit. Returns false if it cannot be reached.
  virtual bool preempt(const std::string& address, Duration grace) = 0;
  // Asks these workers for their stacks. For each of them stacks_dumped() is called within seconds, even if
  // the worker does not answer. It is not called if the worker ends first.
  virtual void dump_stacks(const std::vector<Worker>& workers) = 0;
};

}  // namespace muster::agent
