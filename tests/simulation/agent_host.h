// The surroundings of one simulated agent: its workers' processes, their datagrams, log files, and the
// store's port. Implements the seams of agent::Agent.
//
// Lives as long as the agent's process; the workers outlive it in Machine. Held by shared pointers. One
// thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/io/health/vitals.h"
#include "agent/io/link.h"
#include "agent/io/output/logs.h"
#include "agent/io/store/store_host.h"
#include "agent/io/workers/processes.h"
#include "tests/simulation/input.h"

namespace muster::simulation {

class AgentHost final : public agent::Processes,
                        public agent::TemplateHost,
                        public agent::Leftovers,
                        public agent::WorkerTalk,
                        public agent::Logs,
                        public agent::StoreHost,
                        public agent::Vitals,
                        public std::enable_shared_from_this<AgentHost> {
 public:
  AgentHost(World& world, Owner owner, std::weak_ptr<Program> program);
  AgentHost(const AgentHost&) = delete;
  AgentHost& operator=(const AgentHost&) = delete;

  // The link for output and logs; outlives the agent's program.
  void set_link(agent::Link& link) { link_ = &link; }

  // Called by the machine's processes; takes effect when the agent runs.
  void process_ended(const SimulatedProcess& ended, int exit_code, int signal);
  void worker_says(const SimulatedProcess& worker, wire::ReportKind kind, std::uint64_t step,
                   const std::string& text);
  void gpu_fails(std::int32_t pid);
  bool welcomed() const { return welcomed_; }
  // A worker of the newest attempt has failed, and the checkpoints in memory have not been written to disk.
  bool holds_memory() const { return job_.limits.memory_tier_bytes > 0 && has_failed_ && !memory_is_out_; }

  // Processes.
  void begin(agent::ProcessListener& listener) override { listener_ = &listener; }
  void set_job(const wire::JobSpec& job) override { job_ = job, welcomed_ = true; }
  std::expected<void, agent::StartFailure> open(const agent::OpenAttempt& attempt) override;
  std::string other_checkpoints() const override { return ""; }
  MemoryTold memory_told() const override;
  std::expected<Started, agent::StartFailure> start(LocalRank local_rank,
                                                    const wire::StartWorkers& start) override;
  void give_input(const wire::Input& input) override;
  void look_at_input() override;
  void signal(std::int32_t pid, std::int32_t signal) override;
  // Functions of both Processes and Logs.
  void close() override;
  void write_memory_out() override;

  // TemplateHost.
  bool load() override { return load_template(); }
  bool load_for(const wire::PrepareAttempt&) override { return load_template(); }
  void give_up(const std::string&) override { template_ = Template::kRefused; }
  void end() override { template_ = Template::kNone; }

  // Leftovers.
  std::optional<std::vector<std::int32_t>> find() override;
  void kill(std::int32_t pid) override;
  Leftover kill_and_name(std::int32_t pid) override;

  // WorkerTalk.
  void receive_waiting() override {}
  bool preempt(const std::string& address, Duration grace) override;
  void dump_stacks(const std::vector<Worker>& workers) override;

  // Logs.
  void begin(agent::LogsListener& listener) override { logs_listener_ = &listener; }
  agent::LogPlace place_for(const wire::JobSpec& job) override {
    return {.directory = job.log_directory, .shared = shares_logs()};
  }
  Expected<std::vector<std::string>> open(const wire::JobSpec& job,
                                          const agent::OpenAttempt& attempt) override;
  LastWords last_words(LocalRank local_rank, bool failed) override;
  bool output_waits() const override;
  void hurry() override;
  void finish() override;
  void taken(Attempt attempt, const wire::LogTaken& taken) override;
  bool sent() override;

  // StoreHost.
  Expected<std::int32_t> open(const wire::JobSpec& job, const wire::PrepareAttempt& plan) override;
  void reach(const wire::JobSpec& job, const wire::StartWorkers& start,
             std::function<void(const Status&)> done) override;
  void close(bool) override {}

  // Vitals.
  std::map<Rank, agent::ProcessState> look(const std::map<Rank, std::int32_t>& pids) override;
  std::map<Rank, agent::MainThread> look_at_threads(const std::map<Rank, std::int32_t>&) override {
    return {};
  }
  std::vector<agent::GpuFault> take_gpu_faults() override { return std::exchange(gpu_faults_, {}); }
  std::optional<std::string> held_gpu_memory() override;
  std::vector<wire::RankUsage> usage(const std::map<Rank, agent::WorkerHealth::Worker>&) override {
    return {};
  }

 private:
  enum class Template { kNone, kLoads, kReady, kRefused };  // kRefused: the program gets no other template

  Machine& machine() const { return *world_.machines[static_cast<std::size_t>(owner_.agent.node.value())]; }
  // Runs in the agent's thread, unless the agent has ended by then.
  void later(Duration delay, std::function<void(AgentHost&)> what);
  // Whether the node refuses the attempt now; the job must then end with this exit code.
  bool take_refusal(FaultKind kind, Attempt attempt, int exit_code);
  std::string address_of(std::int32_t pid) const { return std::to_string(pid); }
  void finish_when_written();
  void meet_neighbours(const std::vector<wire::Neighbour>& neighbours) const;
  bool load_template();
  void settle_template(Template settled);
  bool shares_logs() const { return owner_.agent.node.value() % 3 != 2; }
  void read_input();
  void print(Rank rank);

  World& world_;
  Owner owner_;
  std::weak_ptr<Program> program_;
  agent::ProcessListener* listener_ = nullptr;
  agent::LogsListener* logs_listener_ = nullptr;
  agent::Link* link_ = nullptr;
  wire::JobSpec job_;
  Attempt attempt_;
  wire::PrepareAttempt plan_;
  std::map<LocalRank, std::string> last_lines_;
  std::optional<SimulatedStdin> stdin_;  // of the running worker that gets the input
  bool input_is_read_ = false;           // read_input() is scheduled
  std::vector<agent::GpuFault> gpu_faults_;
  std::optional<TimePoint> finishing_since_;  // virtual
  bool hurried_ = false;
  bool welcomed_ = false;
  Template template_ = Template::kNone;
  int blind_count_ = 0;         // consecutive looks that did not see what is left
  bool has_failed_ = false;     // a worker of the newest attempt has failed, and the agent knows it
  bool memory_is_out_ = false;  // it has been written to disk, or is being written
  std::set<Rank> held_ranks_;   // that this agent has started
};

}  // namespace muster::simulation
