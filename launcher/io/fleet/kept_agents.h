// Agents on other hosts that have left a job and wait for the next one: a sweep's trials then need no new
// shell for their agents, and find their program loaded.
//
// The bootstrap of a job takes an agent from here instead of starting one, and puts it back when it has left
// the job. Nobody else has an agent that waits here, so it never serves two jobs. One thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/net/kept_stream.h"
#include "common/net/task_group.h"
#include "launcher/core/fleet/host_script.h"
#include "launcher/io/fleet/host_shell.h"

namespace muster::launcher {

struct KeptAgent {
  std::shared_ptr<HostShell> shell;
  std::shared_ptr<net::KeptStream> stream;  // through the shell
  AgentGreeting greeting;
};

class KeptAgents {
 public:
  explicit KeptAgents(const asio::any_io_executor& executor) : tasks_(executor) {}
  KeptAgents(const KeptAgents&) = delete;
  KeptAgents& operator=(const KeptAgents&) = delete;

  void put(const Host& host, KeptAgent agent);
  // The agent that has come last from this host. nullopt: none waits there.
  std::optional<KeptAgent> take(const Host& host);
  // Ends all agents: an agent exits when its stream ends. Run the context until idle().
  void close();
  bool idle() const { return tasks_.empty(); }

 private:
  net::TaskGroup tasks_;
  std::map<std::string, std::vector<KeptAgent>> waiting_;  // by host
};

}  // namespace muster::launcher
