// Agents on other hosts that have left a job and wait for the next one. With such an agent, a trial of a
// sweep needs no new shell, and the trial's program is already loaded.
//
// The bootstrap of a job takes an agent from here instead of starting one, and puts it back when it has left
// the job. An agent that waits here has no job, so it never serves two. One thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/net/kept_stream.h"
#include "common/net/task_group.h"
#include "launcher/core/fleet/host_script.h"
#include "launcher/io/fleet/container_guardian.h"
#include "launcher/io/fleet/docker_engine.h"
#include "launcher/io/fleet/host_shell.h"

namespace muster::launcher {

struct KeptAgent {
  std::shared_ptr<HostShell> shell;
  std::shared_ptr<net::KeptStream> stream;  // through the shell
  AgentGreeting greeting;
};

class KeptAgents {
 public:
  explicit KeptAgents(const asio::any_io_executor& executor) : executor_(executor), tasks_(executor) {}
  KeptAgents(const KeptAgents&) = delete;
  KeptAgents& operator=(const KeptAgents&) = delete;

  // Keeps an agent that waits. `place` is the result of HostAccess::place().
  void put(const std::string& place, KeptAgent agent);
  // If an agent with this place waits here, takes it. If there are several, takes the one that was put here
  // last. Returns nullopt if there is none.
  std::optional<KeptAgent> take(const std::string& place);
  // Call if some agents are containers. If this launcher dies, a guardian removes all objects that the
  // launcher has created in the engine. close() also removes these objects. `patience` has the same meaning
  // as in ContainerGuardian. After the first call, this does nothing.
  Status guard_containers(Duration patience);
  // Ends all agents. An agent exits when its stream ends. Run the context until idle() is true.
  void close();
  bool idle() const { return tasks_.empty(); }

 private:
  awaitable<void> remove_containers();

  asio::any_io_executor executor_;
  net::TaskGroup tasks_;
  std::unique_ptr<DockerEngine> engine_;  // null: no agent is a container
  std::string containers_;                // the label that they have
  ContainerGuardian guardian_;
  std::map<std::string, std::vector<KeptAgent>> waiting_;  // by place
};

}  // namespace muster::launcher
