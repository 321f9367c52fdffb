// The agents of one launch: production agent::Agents in simulated processes on simulated machines, their
// connections, their guardians, and what happens to them.
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

// Of a node, where each has one.
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
  bool all_welcomed() const;  // that live
  void close_all();           // their connections, as a dead launcher's kernel does

  // Faults; false where there is nothing that could be hit.
  bool hit_agent(const Fault& fault);
  bool hit_link(const Fault& fault);
  bool arm_start(const Fault& fault);  // loses the agent, and something is wrong with the next one
  bool send_stranger(const Fault& fault);
  // What the node's agent says arrives so much later: others may be heard before it.
  void delay(NodeId node, Duration time);
  // Where its agent is connected and runs, or is only connected; else nullptr.
  AgentHost* running(NodeId node) const;
  AgentHost* connected(NodeId node) const;
  // Since then no agent stands still.
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
  // Of an agent that says nothing any more: the launcher is to notice.
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
