// Each node is a container of this machine's Docker Engine. The agent is the first process of the container.
//
// Labels name a container's job and launcher (core/fleet/container_spec.h). The engine removes a container
// that has ended. If this launcher dies, a guardian process removes the containers that still run. If the
// guardian cannot remove a container, a later launch removes it (container_cleanup.h). One thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/net/task_group.h"
#include "launcher/core/fleet/container_spec.h"
#include "launcher/core/settings/plan.h"
#include "launcher/io/fleet/container_guardian.h"
#include "launcher/io/fleet/container_shell.h"
#include "launcher/io/fleet/docker_engine.h"
#include "launcher/io/fleet/host_access.h"

namespace muster::launcher {

// Returns how long agents are allowed to run after their launcher has died.
Duration agents_stay(const Plan& plan);

class ContainerAccess final : public HostAccess {
 public:
  // Mounts `agent_program` into the containers. Also mounts its TLS module, its PMIx module, and `launch`.
  ContainerAccess(const asio::any_io_executor& executor, const Plan& plan, const std::string& agent_program);

  std::string name() const override { return "container"; }
  awaitable<Status> prepare() override;
  std::string place(NodeId node) const override { return container_place(plan_, node, here_); }
  void adopt(AgentId agent, const std::shared_ptr<HostShell>& shell) override;
  awaitable<Shell> start_agent(AgentId agent, Words arguments) override;
  awaitable<Expected<Errand>> bring(NodeId node, HostStart::Missing missing) override;
  awaitable<bool> kill_agent(AgentId agent, AgentGreeting greeting) override;
  awaitable<std::optional<std::vector<Leftover>>> sweep(AgentId below, bool kill) override;
  // Listens to the events of the engine. Only these say which container ran out of memory.
  awaitable<void> watch() override;
  awaitable<void> finish() override;

 private:
  struct Making;
  std::shared_ptr<Making> make(DockerEngine::Request request);
  awaitable<Expected<DockerEngine::Answer>> answer_to(std::shared_ptr<Making> making);
  awaitable<Status> network_is_there();
  awaitable<void> ask_until_there(DockerEngine::Request request, std::shared_ptr<Making> making);
  awaitable<Expected<std::string>> make_container(AgentId agent, const Words& arguments);
  awaitable<Status> make_room(AgentId agent, const std::string& name);
  void hear_of_memory(std::string_view event);
  std::string job_label() const;

  asio::any_io_executor executor_;
  const Plan& plan_;
  ContainerSurroundings here_;
  Expected<std::string> socket_;  // of the engine
  DockerEngine engine_;
  ContainerGuardian guardian_;
  std::map<AgentId, std::weak_ptr<ContainerShell>> shells_;
  net::TaskGroup makings_;           // requests to create containers and networks
  std::shared_ptr<Making> network_;  // null: the job has no network of its own
  bool finishing_ = false;
};

}  // namespace muster::launcher
