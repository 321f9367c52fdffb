// One agent's process: the real decisions of agent::Node, performed on simulated processes and a simulated
// link.
//
// Does what agent/io/agent.cc does, on virtual time. Destroying it is SIGKILL: it does nothing more, and says
// nothing. While stopped (SIGSTOP), whatever happens to it waits.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "agent/core/node/node.h"
#include "tests/unit/cluster/simulated_link.h"
#include "tests/unit/cluster/simulated_processes.h"

namespace muster::simulation {

class SimulatedAgent : public std::enable_shared_from_this<SimulatedAgent> {
 public:
  enum class Step { kOpenAttempt, kStartWorker };
  struct Parts {
    Timeline& timeline;
    Processes& processes;
    NodeId node;
    std::shared_ptr<Stream> from_launcher;
    std::shared_ptr<Stream> to_launcher;
    std::function<bool(Step, Attempt)> refuses;
    bool preemptible = false;  // its workers can save and leave on notice
    std::function<void(int exit_code)> on_quit;
  };
  explicit SimulatedAgent(Parts parts);
  SimulatedAgent(const SimulatedAgent&) = delete;
  SimulatedAgent& operator=(const SimulatedAgent&) = delete;
  ~SimulatedAgent();

  void start();
  void stop() { stopped_ = true; }
  void resume();
  bool welcomed() const { return welcomed_; }
  // Of a worker that does not get on: what the agent sees, some time later.
  void worker_stalls(std::int32_t pid, bool stopped, std::int64_t step, Duration seen_after);

 private:
  // Calls `what` when this process runs, if it still lives then.
  template <class What>
  auto awake(What what);
  void hear(const std::string& bytes);
  void obey(Attempt attempt, const wire::ToAgent& message);
  void on(agent::Event event);
  void report(Rank rank, const std::string& kind, std::int64_t step, std::string text);
  void send_stacks();
  void preempt();
  Rank rank_of(LocalRank local_rank) const { return Rank(first_rank_.value() + local_rank.value()); }
  void perform(const agent::OpenAttempt& action);
  void perform(const agent::LoadTemplate&) { on(agent::TemplateSettled{}); }
  void perform(const agent::StartWorker& action);
  void perform(const agent::SignalWorker& action);
  void perform(const agent::KillLeftovers& action);
  void perform(const agent::NameLeftovers&) { on(agent::LeftoversNamed{parts_.processes.name_survivors()}); }
  void perform(const agent::LookAtGpus&) {}
  void perform(const agent::CloseAttempt&) {}
  void perform(const agent::GiveUpTemplate&) {}
  void perform(const agent::Send& action);
  void perform(const agent::Quit& action);
  void worker_ended(std::int32_t pid, int exit_code, int signal);

  Parts parts_;
  AgentEnd link_;
  agent::Node node_;
  Rank first_rank_;
  int worker_count_ = 0;
  std::map<std::int32_t, LocalRank> workers_;  // by pid
  std::deque<agent::Event> events_;
  bool handling_ = false;
  bool stopped_ = false;
  bool welcomed_ = false;
  std::deque<std::function<void()>> waiting_;  // for the process to go on
  Alarm alarm_;
};

}  // namespace muster::simulation
