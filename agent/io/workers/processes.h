// The seams to the processes of one node: an attempt's workers, the template that they are forked from, what
// they leave behind, and what they say.
//
// Agent performs Node over these. Local processes are one implementation, the simulator's another. Nothing
// here waits, and nothing here decides; what is told through the listener is told in the order in which it
// happened, and never inside begin(). One thread.
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
  // The worker is reaped: `exited` says how it ended and what is known of its memory. Its ranks, its GPU's
  // fault and its last words are for the listener to fill in.
  virtual void worker_ended(LocalRank local_rank, wire::WorkerExited exited) = 0;
  // The report may be of any attempt: the listener drops stale ones. `address`: where the worker can be
  // reached; empty if it has no address.
  virtual void worker_reported(const Report& report, const std::string& address) = 0;
  // Answers WorkerTalk::dump_stacks(), once for each worker that has not ended before.
  virtual void stacks_dumped(wire::WorkerStacks stacks) = 0;
  // Of the input that the attempt's worker gets; the last comes before that worker's end.
  virtual void input_taken(const wire::InputTaken& taken) = 0;
  // Answers Processes::write_memory_out(), with what the user is to be told; never once the agent has left.
  virtual void memory_written(MemoryWritten written) = 0;
  // The template that was loading is ready, or one that was there is gone.
  virtual void template_settled() = 0;
  // A child of the agent's has ended, perhaps one that Leftovers::find() gave: another process may have its
  // pid next. May be told more than once of one end, and inside any call of these interfaces but begin().
  virtual void leftover_ended(std::int32_t pid) = 0;
  // Some process has ended, which may have left others behind, or was the last of them.
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
    std::string executed_because{};      // why it was not forked, if it might have been
    std::optional<std::uint32_t> gpu{};  // the number of the GPU that it takes, in a job with GPUs
  };

  virtual ~Processes() = default;
  // Called once, after Hello. The listener outlives this object's last call of it.
  virtual void begin(ProcessListener& listener) = 0;
  // Tells what all attempts have in common; once more if the launcher says Welcome again.
  virtual void set_job(const wire::JobSpec& job) = 0;
  // Whether the attempt's workers could be started; nothing is started yet. close() follows in any case.
  virtual std::expected<void, StartFailure> open(const OpenAttempt& attempt) = 0;
  // Whether the open attempt's checkpoint directory is the launcher's (wire::AttemptPrepared).
  virtual std::string other_checkpoints() const = 0;
  // What the launcher is told of the memory that outlives the workers.
  virtual MemoryTold memory_told() const = 0;
  // The ranks come in order. kProgram where the program turns out to be none.
  virtual std::expected<Started, StartFailure> start(LocalRank local_rank,
                                                     const wire::StartWorkers& start) = 0;
  // For the stdin of the worker that gets the job's input (JobSpec::input_rank); dropped where none runs.
  virtual void give_input(const wire::Input& input) = 0;
  // input_taken() follows, inside, if that worker has read more of it than was told.
  virtual void look_at_input() = 0;
  // Signals the process group of a worker whose end has not been told.
  virtual void signal(std::int32_t pid, std::int32_t signal) = 0;
  // No worker of the attempt runs any more.
  virtual void close() = 0;
  // Makes a checkpoint of what the newest attempt's workers held in memory; memory_written() follows. Called
  // once, when no attempt follows.
  virtual void write_memory_out() = 0;
};

// The program, loaded once and kept over attempts; docs/warm_start.md says what it is for.
class TemplateHost {
 public:
  virtual ~TemplateHost() = default;
  // Loads the template for the attempt that was opened. True: it loads, and template_settled() follows.
  virtual bool load() = 0;
  // The same for an attempt that may come.
  virtual bool load_for(const wire::PrepareAttempt& likely) = 0;
  // The template takes too long: kills it and tries no other with the same program. Nothing follows.
  virtual void give_up(const std::string& reason) = 0;
  // The agent leaves: kills the template, and what its program has started.
  virtual void end() = 0;
};

// Processes that workers left behind.
class Leftovers {
 public:
  virtual ~Leftovers() = default;
  // The children of the agent that are neither workers nor the agent's own, and not reaped; nothing if nobody
  // can tell. When a leftover dies, its children become leftovers.
  virtual std::optional<std::vector<std::int32_t>> find() = 0;
  virtual void kill(std::int32_t pid) = 0;
  // Kills the process once more, and says whose it is.
  virtual Leftover kill_and_name(std::int32_t pid) = 0;
};

// What workers say of themselves, and are asked for.
class WorkerTalk {
 public:
  struct Worker {
    Rank rank;
    std::int32_t pid = 0;
    std::string address{};  // where it can be asked for its stacks; empty: it cannot write them
  };

  virtual ~WorkerTalk() = default;
  // Tells now what has been said and not been told yet.
  virtual void receive_waiting() = 0;
  // Asks the worker at this address to save and leave; false if nobody takes the notice.
  virtual bool preempt(const std::string& address, Duration grace) = 0;
  // stacks_dumped() follows for each of them within seconds, whatever the worker does.
  virtual void dump_stacks(const std::vector<Worker>& workers) = 0;
};

}  // namespace muster::agent
