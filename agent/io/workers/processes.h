// The seams to the processes of one node: an attempt's workers, the template to fork them from, what they
// leave behind, and their reports.
//
// Agent performs Node's actions over these interfaces. Local processes are one implementation, the
// simulator's another. Nothing here waits, and nothing here decides. The listener is called in the order of
// events, and never inside begin(). One thread.
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
  // The worker is reaped: `exited` says how it ended and what is known about its memory. The listener fills
  // in its ranks, its GPU's fault and its last words.
  virtual void worker_ended(LocalRank local_rank, wire::WorkerExited exited) = 0;
  // The report may be from any attempt: the listener drops stale ones. `address`: the worker's, for messages
  // to it; empty if it has none.
  virtual void worker_reported(const Report& report, const std::string& address) = 0;
  // Answers WorkerTalk::dump_stacks(), once for each worker that has not ended before.
  virtual void stacks_dumped(wire::WorkerStacks stacks) = 0;
  // How much of the input the attempt's worker has taken; the last call comes before that worker's end.
  virtual void input_taken(const wire::InputTaken& taken) = 0;
  // Answers Processes::write_memory_out() with a remark for the user; never called once the agent has left.
  virtual void memory_written(MemoryWritten written) = 0;
  // The template that was loading is ready, or an existing one is gone.
  virtual void template_settled() = 0;
  // A child of the agent has ended, perhaps one from Leftovers::find(); another process may get its pid next.
  // Can be called more than once for one end, and inside any call of these interfaces except begin().
  virtual void leftover_ended(std::int32_t pid) = 0;
  // A process has ended that may have left others behind, or that was the last leftover.
  virtual void leftovers_changed() = 0;
};

// The attempt's program and its workers.
class Processes {
 public:
  struct MemoryTold {  // wire::AttemptPrepared
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
  // Called once, after Hello. The listener must outlive this object's last call to it.
  virtual void begin(ProcessListener& listener) = 0;
  // Passes what all attempts have in common; called again if the launcher sends another Welcome.
  virtual void set_job(const wire::JobSpec& job) = 0;
  // Checks whether the attempt's workers could start; starts nothing yet. close() follows in any case.
  virtual std::expected<void, StartFailure> open(const OpenAttempt& attempt) = 0;
  // How this node's checkpoint directory differs from the launcher's, such as "is not there"; empty if it
  // does not (wire::AttemptPrepared).
  virtual std::string other_checkpoints() const = 0;
  // The message to the launcher about the memory that outlives the workers.
  virtual MemoryTold memory_told() const = 0;
  // Called in the order of ranks. Fails with kProgram if the file turns out not to be a program.
  virtual std::expected<Started, StartFailure> start(LocalRank local_rank,
                                                     const wire::StartWorkers& start) = 0;
  // Passes input to the stdin of the worker that gets the job's input (JobSpec::input_rank). Drops the input
  // if that worker does not run.
  virtual void give_input(const wire::Input& input) = 0;
  // Calls input_taken(), inside this call, if that worker has read more than was reported.
  virtual void look_at_input() = 0;
  // Signals the process group of a worker whose end has not been reported.
  virtual void signal(std::int32_t pid, std::int32_t signal) = 0;
  // No worker of the attempt is running any more.
  virtual void close() = 0;
  // Makes a checkpoint from what the newest attempt's workers held in memory; memory_written() follows.
  // Called once, when no attempt follows.
  virtual void write_memory_out() = 0;
};

// The program, loaded once and kept over attempts; docs/warm_start.md explains its purpose.
class TemplateHost {
 public:
  virtual ~TemplateHost() = default;
  // Loads the template for the open attempt. True: it is loading, and template_settled() follows.
  virtual bool load() = 0;
  // Like load(), for a possible attempt.
  virtual bool load_for(const wire::PrepareAttempt& likely) = 0;
  // The template takes too long: kills it and tries no other for the same program. No callback follows.
  virtual void give_up(const std::string& reason) = 0;
  // The agent leaves: kills the template, and all processes that its program started, unless this process
  // will serve another job.
  virtual void end() = 0;
};

// Processes that workers left behind.
class Leftovers {
 public:
  virtual ~Leftovers() = default;
  // The agent's unreaped children that are neither workers nor its own helpers; nothing if they cannot be
  // listed. When a leftover dies, its children become leftovers.
  virtual std::optional<std::vector<std::int32_t>> find() = 0;
  // Kills the process, at the latest when it can no longer become a resource tracker.
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
    std::string address{};  // for asking it for its stacks; empty: it cannot write them
  };

  virtual ~WorkerTalk() = default;
  // Passes on reports that have arrived but were not passed on yet.
  virtual void receive_waiting() = 0;
  // Asks the worker at this address to save and leave; false if it cannot be reached.
  virtual bool preempt(const std::string& address, Duration grace) = 0;
  // stacks_dumped() follows for each of them within seconds, whatever the worker does.
  virtual void dump_stacks(const std::vector<Worker>& workers) = 0;
};

}  // namespace muster::agent
