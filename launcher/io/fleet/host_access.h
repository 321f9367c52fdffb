// How a job's nodes are reached where they are not this machine's own processes: through a shell on each
// host (shell_access.h), or as containers of an engine (container_access.h).
//
// RemoteBootstrap (remote_bootstrap.h) starts, kills and sweeps by it, the same for both. One thread.
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
  // What brings to a host what it lacks.
  struct Errand {
    std::shared_ptr<HostShell> shell;
    std::shared_ptr<const std::string> input;  // for its stdin; none: empty
    Duration limit{};
    std::string what;  // it does, for messages: "the agent cannot be brought there"
  };

  virtual ~HostAccess() = default;

  virtual std::string name() const = 0;  // of what runs the agent, for messages: "ssh"
  // Called before the launcher's own addresses are looked at, once for all agents.
  virtual awaitable<Status> prepare() = 0;
  // Runs the agent on its host, with these arguments. kInvalidArgument: the same would be refused again.
  virtual awaitable<Shell> start_agent(AgentId agent, Words arguments) = 0;
  virtual awaitable<Expected<Errand>> bring(NodeId node, HostStart::Missing missing) = 0;
  // Kills an agent that has greeted, and waits for that: 1 s for a shell, 5 s for an engine. False: the host
  // does not say.
  virtual awaitable<bool> kill_agent(AgentId agent, AgentGreeting greeting) = 0;
  // What the node's agents below an incarnation have left there. Nothing: the host does not say.
  virtual awaitable<std::optional<std::vector<Leftover>>> sweep(AgentId below, bool kill) = 0;
  // Runs while agents may, from prepare() on.
  virtual awaitable<void> watch() = 0;
  // Nothing of the job's is to be left. No other call runs, and none follows.
  virtual awaitable<void> finish() = 0;
};

}  // namespace muster::launcher
