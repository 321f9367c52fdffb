// The interface to nodes that are not processes of this machine. They are reached by a shell on each host
// (shell_access.h), or are containers of an engine (container_access.h).
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
  // Called once, before the first agent starts, and before the launcher looks for its own addresses.
  virtual awaitable<Status> prepare() = 0;
  // Returns the place of the node, as a text. An agent that stays after its job can serve a node with the
  // same place in a later job. If the result is "", the agent has to exit with its job. Call this after
  // prepare().
  virtual std::string place(NodeId node) const = 0;
  // Call when an agent of an earlier job becomes the agent of a node in this job. `agent` is its new
  // identity. `shell` is the shell that runs it.
  virtual void adopt(AgentId agent, const std::shared_ptr<HostShell>& shell) = 0;
  // Runs the agent on its host, with these arguments. Returns kInvalidArgument if the host would refuse each
  // retry, too.
  virtual awaitable<Shell> start_agent(AgentId agent, Words arguments) = 0;
  virtual awaitable<Expected<Errand>> bring(NodeId node, HostStart::Missing missing) = 0;
  // Kills an agent that has greeted, and waits for its end. ShellAccess waits for at most 1 s, and
  // ContainerAccess for at most 5 s. Returns false if the host did not answer.
  virtual awaitable<bool> kill_agent(AgentId agent, AgentGreeting greeting) = 0;
  // Finds leftovers on the node. A leftover is a process that is still there although its agent has ended.
  // Looks only for leftovers of agents whose incarnation is below `below.incarnation`. If `below.incarnation`
  // is 0, looks for leftovers of all agents of the node. Returns nullopt if the host did not answer. If
  // `kill` is true, also kills the leftovers.
  virtual awaitable<std::optional<std::vector<Leftover>>> sweep(AgentId below, bool kill) = 0;
  // A task in the background. It starts after prepare(), and is cancelled at the end.
  virtual awaitable<void> watch() = 0;
  // Removes all that the job still has on the hosts. No other call runs at the same time, and none follows.
  virtual awaitable<void> finish() = 0;
};

}  // namespace muster::launcher
