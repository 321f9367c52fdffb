// A launcher and its agents in one process, on virtual time: the real launcher::Job and one real agent::Node
// per node.
//
// Everything follows from the script and one seed: delays, what workers do, faults. What really happened is
// kept apart from what the job is told, so that its verdicts can be compared with it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "launcher/core/controller.h"
#include "tests/unit/cluster/ground_truth.h"
#include "tests/unit/cluster/simulated_agent.h"

namespace muster::simulation {

struct Script {
  int node_count = 2;
  int min_nodes = 2;  // fewer than node_count: elastic
  int spare_nodes = 0;
  int workers_per_node = 2;
  int max_restarts = 3;
  Duration work = std::chrono::seconds(2);  // of a worker before it succeeds
  std::vector<Fault> faults;
  std::vector<Duration> interrupts;  // SIGINT from the user, since the start
  bool preemptible = false;          // the workers can save and leave on notice
  std::optional<Duration> notice;    // SIGTERM, since the start
  std::optional<Duration> cancel;    // by `launch cancel`
  bool cancel_now = false;
  std::optional<Duration> launcher_dies;
  bool launcher_falls_silent = false;  // its connections do not close then
  bool some_survive_sigkill = false;   // of what workers leave
};

// How an attempt ended, beside what ended it.
struct Judgement {
  launcher::Verdict verdict;
  std::vector<invariants::Culprit> culprits;  // the true one; several if nobody could tell which came first
  int succeeded_count = 0;
  int world_size = 0;
};

invariants::Culprit blamed(const launcher::Verdict& verdict);

class SimulatedCluster {
 public:
  static constexpr Duration kGrace = std::chrono::seconds(3);
  static constexpr Duration kSilenceLimit = std::chrono::seconds(2);
  static constexpr Duration kPreemptionGrace = std::chrono::seconds(2);
  static constexpr Duration kControllerGrace = std::chrono::seconds(4);

  SimulatedCluster(Script script, std::uint64_t seed);
  // Until the launcher has ended, or is dead and nothing is left, or `limit` has passed.
  void run(Duration limit);

  const launcher::Job& job() const { return job_; }
  // A launcher that leaves at once leaves the rest to the guardians.
  bool ended() const { return (launcher_dead_ || finished_) && living_count() == 0; }
  int living_count() const;  // agents, workers, and what they left
  Duration elapsed() const { return timeline_.now() - start_; }
  Duration since_last_fault() const { return timeline_.now() - last_fault_; }
  const std::vector<Judgement>& judgements() const { return judgements_; }
  int survivor_count() const { return survivor_count_; }  // that the launcher has heard of
  int commit_count() const { return commit_count_; }      // checkpoints that the launcher has heard of
  bool all_welcomed() const { return all_welcomed_; }     // when the launcher died
  std::optional<int> restarts_when_interrupted() const { return restarts_when_interrupted_; }
  const std::vector<Fault::Kind>& faults() const { return truth_.history(); }

 private:
  struct Machine {
    Machine(Timeline& timeline, const Script& script)
        : processes(timeline, script.work, script.some_survive_sigkill) {}
    Processes processes;
    std::shared_ptr<SimulatedAgent> agent;  // while its process lives
    bool guardian = false;                  // has yet to kill what a dead agent left
    std::shared_ptr<Stream> to_agent;
    std::shared_ptr<Stream> to_launcher;
    // As the launcher knows it.
    bool known = false;
    AgentId id{};  // the newest
    std::unique_ptr<LauncherEnd> session;
  };

  // The launcher's process.
  void tell(launcher::Event event);
  void perform(const launcher::StartAgent& action);
  void perform(const launcher::KillAgent& action);
  void perform(const launcher::BeginAttempt& action);
  void perform(const launcher::LookForCheckpoint& action);
  void perform(const launcher::Send& action);
  void perform(const launcher::AcceptConnection&) {}
  void perform(const launcher::CloseConnection&) {}
  void perform(const launcher::LookForLeftovers& action);
  void perform(const launcher::Tell&) {}
  void perform(const launcher::Record&) {}
  void perform(const launcher::Finish& action);
  void hear(NodeId node, const std::string& bytes);
  void link_ended(NodeId node);
  static launcher::ConnectionId connection_of(AgentId agent) {
    return launcher::ConnectionId(agent.incarnation.value() * 1000ULL +
                                  static_cast<std::uint64_t>(agent.node.value()));
  }
  void ping();

  // What happens to it and to the machines.
  void agent_is_gone(NodeId node);
  void arm_faults();
  void inject(const Fault& fault);
  void pause(NodeId node, Duration length);
  bool refuses(NodeId node, SimulatedAgent::Step step, Attempt attempt);
  void kill_launcher();
  void peers_fail();
  void worker_stalls(NodeId node, std::int32_t culprit, bool stopped);
  bool is_decisive(NodeId node) const;
  void check_members() const;
  void note(Fault::Kind kind, NodeId node, std::optional<Rank> rank = std::nullopt);
  std::set<NodeId> members_now();
  void judge(const std::set<NodeId>& members);
  Machine& machine(NodeId node) { return *machines_.at(static_cast<std::size_t>(node.value())); }

  Script script_;
  Timeline timeline_;
  launcher::Controller controller_;
  const launcher::Job& job_ = controller_.job();
  Attempt newest_begun_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::deque<launcher::Event> events_;
  bool handling_ = false;
  bool finished_ = false;
  bool launcher_dead_ = false;
  bool all_welcomed_ = true;
  std::size_t interrupt_count_ = 0;
  int commit_count_ = 0;
  int survivor_count_ = 0;
  bool gathered_ = false;  // the attempt at hand has its members
  TimePoint strays_since_;
  Alarm deadline_;
  Alarm second_;

  TimePoint start_ = timeline_.now();
  TimePoint last_fault_ = start_;  // or the end of its effect, which may lie ahead
  TimePoint paused_until_ = start_;
  std::optional<int> restarts_when_interrupted_;
  std::optional<std::pair<Attempt, launcher::Phase>> armed_;  // whose faults are under way
  GroundTruth truth_{kSilenceLimit};
  std::vector<Judgement> judgements_;
};

}  // namespace muster::simulation
