// Reaches hosts by a local command. The command is ssh, or the command that --exec gives
// (core/fleet/host_script.h). It runs anew for each errand, for example to start an agent or to look for
// leftovers.
//
// With --image, the host's own `docker run` starts the agent as the first process of a container.
#pragma once

#include <set>

#include "launcher/core/settings/plan.h"
#include "launcher/io/fleet/delivery.h"
#include "launcher/io/fleet/host_access.h"

namespace muster::launcher {

class ShellAccess final : public HostAccess {
 public:
  // Hosts may be added to `plan` later. `agent_program` is the file that is copied to hosts.
  ShellAccess(const asio::any_io_executor& executor, const Plan& plan, std::string agent_program,
              const rlimit& descriptors);

  std::string name() const override;
  awaitable<Status> prepare() override { co_return Status{}; }
  std::string place(NodeId node) const override;
  void adopt(AgentId, const std::shared_ptr<HostShell>&) override {}
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
  AgentPlace remote_agent_;      // from --remote-agent; set by the first use
  std::set<NodeId> containers_;  // nodes for which a container was requested
  rlimit descriptors_;
};

}  // namespace muster::launcher
