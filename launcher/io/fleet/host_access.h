// The seam to nodes that are not processes of this machine: a shell on each host (shell_access.h), or
// containers of an engine (container_access.h).
//
// RemoteBootstrap (remote_bootstrap.h) uses it to start and kill agents and to sweep their hosts, in the same
// way for both. One thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/fleet/host_start.h"
#include "launcher/io/fleet/host_shell.h"

namespace muster::launcher {

class HostAccess {
 public:
  using Words = std::vector<std::string>;
  using Shell = Expected<std::shared_ptr<HostShell>>;
  // A running shell that brings the agent or an image to a host.
  struct Errand {
    std::shared_ptr<HostShell> shell;
    std::shared_ptr<const std::string> input;  // for the shell's stdin; may be empty, not null
    Duration limit{};
    std::string what;  // the failure in a message: "cannot copy the agent there"
  };

  virtual ~HostAccess() = default;

  virtual std::string name() const = 0;  // the program that runs the agent, for messages: "ssh"
  // Called once, before the first agent starts and before the launcher looks for its own addresses.
  virtual awaitable<Status> prepare() = 0;
  // An agent that stays after its job can serve a node with the same place in a later job. "": the node's
  // agent has to exit with the job. Call place() after prepare().
  virtual std::string place(NodeId node) const = 0;
  // Notes that an agent of an earlier job, in this shell, is now the node's agent.
  virtual void adopt(AgentId agent, const std::shared_ptr<HostShell>& shell) = 0;
  // Runs the agent on its host, with these arguments. kInvalidArgument: the host would refuse a retry too.
  virtual awaitable<Shell> start_agent(AgentId agent, Words arguments) = 0;
  virtual awaitable<Expected<Errand>> bring(NodeId node, HostStart::Missing missing) = 0;
  // Kills an agent that has greeted. Waits for its end, at most 1 s with a shell, 5 s with an engine. Returns
  // false if the host did not answer.
  virtual awaitable<bool> kill_agent(AgentId agent, AgentGreeting greeting) = 0;
  // Returns the leftovers of the node's agents whose incarnation is below `below.incarnation`; if that is 0,
  // of all its agents. Returns nothing if the host did not answer. `kill`: kills the leftovers as well.
  virtual awaitable<std::optional<std::vector<Leftover>>> sweep(AgentId below, bool kill) = 0;
  // A background task: starts after prepare() and is cancelled at the end.
  virtual awaitable<void> watch() = 0;
  // Removes what the job still has on the hosts. This is the last call, and no other call runs meanwhile.
  virtual awaitable<void> finish() = 0;
};

}  // namespace muster::launcher
