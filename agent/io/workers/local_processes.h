// Manages the real processes of this agent. They are children of this process. It starts them, receives their
// reports, and reaps them.
//
// Workers can leave processes behind. The agent must be a child subreaper, so that any such process becomes
// its child. Call all functions on the one thread of the io_context. All waits are tasks of the task group.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/io/guardian.h"
#include "agent/io/health/local_vitals.h"
#include "agent/io/health/stacks.h"
#include "agent/io/mpi/local_mpi_host.h"
#include "agent/io/output/local_logs.h"
#include "agent/io/workers/attempt_run.h"
#include "agent/io/workers/memory_exchange.h"
#include "agent/io/workers/memory_slots.h"
#include "agent/io/workers/memory_write_out.h"
#include "agent/io/workers/processes.h"
#include "agent/io/workers/run_directory.h"
#include "agent/io/workers/warm_start.h"
#include "agent/io/workers/worker_input.h"
#include "agent/io/workers/worker_socket.h"
#include "common/net/task_group.h"
#include "common/net/time.h"

namespace muster::agent {

// The parts that an agent process keeps when one job ends and the next one begins.
struct KeptParts {
  explicit KeptParts(const asio::any_io_executor& executor) : warm(executor) {}
  bool for_next_job = false;  // false: the process ends with its job
  Guardian guardian;
  std::unique_ptr<RunDirectory> directory;  // from the first begin() on
  WarmStart warm;
};

class LocalProcesses final : public Processes, public TemplateHost, public Leftovers, public WorkerTalk {
 public:
  struct Setting {  // all references must outlive this object
    asio::io_context& io;
    net::TaskGroup& tasks;
    net::Time& time;
    KeptParts& kept;
    LocalLogs& logs;
    LocalVitals& vitals;
    LocalMpiHost& mpi;
    NodeId node;
    Incarnation incarnation;
    // Called with remarks for the user.
    std::function<void(const std::string&)> remark;
  };
  // The constructor blocks SIGCHLD and raises the limit of descriptors. Workers start without these two
  // changes.
  explicit LocalProcesses(Setting setting);
  LocalProcesses(const LocalProcesses&) = delete;
  LocalProcesses& operator=(const LocalProcesses&) = delete;

  void begin(ProcessListener& listener) override;
  void set_job(const wire::JobSpec& job) override;
  std::expected<void, StartFailure> open(const OpenAttempt& attempt) override;
  std::string other_checkpoints() const override { return run_->other_checkpoints(); }
  MemoryTold memory_told() const override { return {.port = neighbour_port_, .ranks = held_ranks()}; }
  std::expected<Started, StartFailure> start(LocalRank local_rank, const wire::StartWorkers& start) override;
  void give_input(const wire::Input& input) override;
  void look_at_input() override;
  void signal(std::int32_t pid, std::int32_t signal) override;
  void close() override;
  void write_memory_out() override;

  bool load() override;
  bool load_for(const wire::PrepareAttempt& likely) override;
  void give_up(const std::string& reason) override { warm_.give_up(reason); }
  void end() override;

  std::optional<std::vector<std::int32_t>> find() override;
  void kill(std::int32_t pid) override;
  Leftover kill_and_name(std::int32_t pid) override { return kill_leftover(pid); }

  void receive_waiting() override;
  bool preempt(const std::string& address, Duration grace) override;
  void dump_stacks(const std::vector<Worker>& workers) override;

 private:
  awaitable<void> watch(LocalRank local_rank, Rank rank, Process process, std::optional<std::uint32_t> gpu);
  // Returns the descriptor for the worker's stdin. It is -1 if the worker gets no input.
  Expected<int> open_input(LocalRank local_rank);
  void close_input();
  void open_worker_socket();
  void hear(const Report& report, const std::string& address);
  void give_memory(const Report& report, const std::string& address);
  HeldMemory held_memory() const;
  void answer_who_wait();
  void pass_to_neighbours(const wire::WorkerReported& held);
  void listen_for_neighbours();
  std::vector<Rank> held_ranks() const;
  void tell(Stacks::Told stacks);
  void look_at_stacks();
  // Reaps leftovers that have ended. It does not reap workers; watch() does that.
  void reap_leftovers();
  // Returns true if find() must leave this process out for now, because it is a Python resource tracker whose
  // time limit has not passed. Returns false for a process that is still being executed, although it may
  // become a tracker. So kill() does not kill such a process, and kill_late_trackers() looks at it again.
  bool spares(pid_t pid);
  void kill_late_trackers();
  void wait_for_trackers();
  void kill_leftovers();
  void end_template();
  NodeContext context(Attempt attempt) const;
  bool prepare_template(std::expected<TemplateSpec, std::string> wanted);

  Setting setting_;
  rlimit worker_descriptor_limit_;
  ProcessListener* listener_ = nullptr;
  wire::JobSpec job_;
  WarmStart& warm_;
  std::unique_ptr<WorkerSocket> socket_;  // from begin() on
  MemorySlots memory_slots_;
  MemoryWriteOut memory_write_out_;
  MemoryExchange exchange_;
  std::int32_t neighbour_port_ = 0;
  std::map<std::string, Report> wait_for_memory_;  // reports that ask for memory, by the rank's address
  wire::PrepareAttempt plan_;                      // of the newest attempt
  std::unique_ptr<AttemptRun> run_;                // of the open attempt
  std::optional<Stacks> stacks_;                   // of the open attempt's workers
  std::shared_ptr<WorkerInput> input_;             // stdin of the worker that gets the input
  Attempt attempt_;
  std::string unguarded_;                // why the guardian does not run; if not empty, no worker is started
  std::set<pid_t> workers_;              // the workers that have not been reaped
  std::map<pid_t, TimePoint> trackers_;  // the time limits of leftovers that may be trackers
  std::unique_ptr<net::Alarm> stacks_alarm_;
  std::unique_ptr<net::Alarm> trackers_alarm_;
};

}  // namespace muster::agent
