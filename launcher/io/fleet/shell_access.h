// Hosts that are reached by a local command each time: ssh, or what --exec says (core/fleet/host_script.h).
//
// With --image the agent is the first process of a container on its host, by the host's own `docker run`.
#pragma once

#include <set>

#include "launcher/core/settings/plan.h"
#include "launcher/io/fleet/delivery.h"
#include "launcher/io/fleet/host_access.h"

namespace muster::launcher {

class ShellAccess final : public HostAccess {
 public:
  // `plan`: of the job, which may get more hosts later. `agent_program` is what is brought to hosts.
  ShellAccess(const asio::any_io_executor& executor, const Plan& plan, std::string agent_program,
              const rlimit& descriptors);

  std::string name() const override;
  awaitable<Status> prepare() override { co_return Status{}; }
  awaitable<Shell> start_agent(AgentId agent, Words arguments) override;
  awaitable<Expected<Errand>> bring(NodeId node, HostStart::Missing missing) override;
  awaitable<bool> kill_agent(AgentId agent, AgentGreeting greeting) override;
  awaitable<std::optional<std::vector<Leftover>>> sweep(AgentId below, bool kill) override;
  awaitable<void> watch() override { co_return; }
  awaitable<void> finish() override;

 private:
  Shell open(NodeId node, std::string_view script) const;
  Shell run(NodeId node, Words words) const;
  const Host& host_of(NodeId node) const;
  Expected<AgentPlace> agent_place();

  asio::any_io_executor executor_;
  const Plan& plan_;
  Delivery delivery_;
  AgentPlace remote_agent_;      // of --remote-agent; made for the first of the agents
  std::set<NodeId> containers_;  // nodes whose hosts were asked for one
  rlimit descriptors_;
};

}  // namespace muster::launcher
