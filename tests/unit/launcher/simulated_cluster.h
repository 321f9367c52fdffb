// A launcher's job and its agents on virtual time: messages are delayed, workers and agents fail as a script
// says.
//
// Everything follows from one seed. The job is the real one; agents and workers are simulated as the launcher
// sees them. Ground truth (who failed first, who succeeded) is kept apart from what the job is told.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "launcher/core/job.h"
#include "tests/invariants.h"

namespace muster::launcher {

enum class Fault {
  kNone,
  kWorkerDies,
  kAgentDies,               // while workers run
  kAgentHangs,              // says nothing any more; its workers go on
  kAgentDiesUnprepared,     // on being told to prepare
  kAgentDiesWhileStopping,  // after a worker of another node failed
};

class SimulatedCluster {
 public:
  struct Script {
    int node_count = 2;
    int workers_per_node = 2;
    int max_restarts = 3;
    std::vector<Fault> faults;             // by attempt
    std::optional<Duration> first_signal;  // SIGINT from the user, and again
    std::optional<Duration> second_signal;
  };
  SimulatedCluster(Script script, std::uint64_t seed);
  // Until the job is done, or a virtual hour has passed.
  void run();

  const Job& job() const { return job_; }
  bool done() const { return done_; }
  int living_worker_count() const;
  int succeeded_count() const { return succeeded_count_; }
  Duration since_last_fault() const { return now_ - last_fault_; }
  // Of each attempt that a fault ended.
  const std::map<Attempt, invariants::Culprit>& first_faults() const { return first_faults_; }

 private:
  struct Worker {
    bool lives = false;
    bool stopping = false;
  };
  struct Agent {
    int incarnation = 0;
    bool lives = false;
    bool hangs = false;
    bool connected = false;
    Attempt attempt;
    std::vector<Worker> workers;
    TimePoint last_delivery;
  };

  void at(Duration delay, std::function<void()> what);
  // Only while this incarnation of the agent lives.
  void for_agent(int node, Duration delay, std::function<void(Agent&)> what);
  void tell_job(Event event);
  void say(int node, wire::ToLauncher message);
  void perform(const StartAgent& action);
  void perform(const KillAgent& action);
  void perform(const BeginAttempt& action);
  void perform(const Send& action);
  void perform(const Tell&) {}
  void perform(const Finish&) { done_ = true; }
  void receive(int node, Attempt attempt, const wire::ToAgent& message);
  void start_workers(int node);
  void stop_workers(int node, const wire::StopWorkers& stop);
  void end_worker(int node, int index, int code, int signal, bool after_stop);
  void inject(Fault fault);
  void agent_dies(int node, Duration noticed_after);
  void others_fail(int but_rank);
  void ping();
  void arm_deadline();
  Fault fault_of(Attempt attempt) const;
  Duration random(Duration low, Duration high);
  int random_below(int count) { return static_cast<int>(rng_() % static_cast<std::uint64_t>(count)); }
  Agent& agent(NodeId node) { return agents_.at(static_cast<std::size_t>(node.value())); }

  Script script_;
  Job job_;
  std::mt19937_64 rng_;
  TimePoint now_{std::chrono::seconds(1000)};
  std::multimap<TimePoint, std::function<void()>> queue_;
  std::vector<Agent> agents_;
  std::optional<TimePoint> deadline_;
  bool done_ = false;
  int succeeded_count_ = 0;  // of the last attempt
  int victim_node_ = 0;      // of this attempt's fault
  TimePoint last_fault_ = now_;
  std::map<Attempt, invariants::Culprit> first_faults_;
};

}  // namespace muster::launcher
