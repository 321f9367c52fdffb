// The agents of one launch: production agent::Agents in simulated processes on simulated machines, with their
// connections and guardians.
//
// Implements the launcher's seam to the machines. Lives as long as its launch. One thread.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/io/agent.h"
#include "launcher/io/fleet/bootstrap.h"
#include "tests/simulation/agent_host.h"
#include "tests/simulation/world.h"

namespace muster::simulation {

class Launch;

// A value for each node.
inline std::string host_name(int node) {
  return fmt::format("host{}", node);
}

class Agents final : public launcher::Bootstrap {
 public:
  Agents(World& world, Launch& launch);
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;
  ~Agents() override;

  int living_count() const;
  bool all_welcomed() const;  // all living agents
  void close_all();           // the connections, as the kernel does for a dead launcher

  // Faults; false if there is nothing to hit.
  bool hit_agent(const Fault& fault);
  bool hit_link(const Fault& fault);
  bool arm_start(const Fault& fault);  // kills the agent, and makes the next one faulty
  bool send_stranger(const Fault& fault);
  // Delays the messages of the node's agent by this time, so that messages of other agents may arrive first.
  void delay(NodeId node, Duration time);
  // The node's agent if it is connected and runs, or is only connected; else nullptr.
  AgentHost* running(NodeId node) const;
  AgentHost* connected(NodeId node) const;
  // The time since which no agent is stopped.
  TimePoint paused_until() const { return paused_until_; }

  void listen(launcher::Bootstrap::Listener& listener) override { listener_ = &listener; }
  void start(AgentId agent) override;
  void kill(AgentId agent) override;
  void look_for_leftovers(bool kill) override;

 private:
  struct Process;

  Process* connected_process(NodeId node) const;
  void open(Process& agent);
  void tell_connected(Process& agent);
  void stranger_calls(AgentId old);
  // The agent sends nothing any more: checks that the launcher notices.
  void expect_notice(Process& agent);
  void quit(const std::weak_ptr<Process>& agent, const agent::Quit& quit);
  void killed(Process& agent);
  void gone(Process& agent, const std::string& how, bool guarded);
  std::vector<Leftover> leftovers(bool kill);
  void leftover_ended();
  Machine& machine(NodeId node) const { return *world_.machines[static_cast<std::size_t>(node.value())]; }

  World& world_;
  Launch& launch_;
  launcher::Bootstrap::Listener* listener_ = nullptr;
  std::map<AgentId, std::shared_ptr<Process>> agents_;
  std::map<NodeId, FaultKind> start_faults_;
  std::vector<std::shared_ptr<Line>> strangers_;
  TimePoint paused_until_{};
};

}  // namespace muster::simulation
