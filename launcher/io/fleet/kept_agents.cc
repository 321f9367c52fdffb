#include "launcher/io/fleet/kept_agents.h"

#include <cstdlib>
#include <fmt/format.h>
#include <utility>

#include "common/base/process.h"
#include "launcher/core/fleet/container_spec.h"
#include "launcher/io/fleet/container_cleanup.h"

namespace muster::launcher {

namespace {

constexpr Duration kExitLimit = std::chrono::seconds(1);
constexpr Duration kRemoveLimit = std::chrono::seconds(8);

// Waits until the agent has exited. The agent exits when its stream is closed. If the exit takes too long,
// this function ends the agent's shell, too.
awaitable<void> wait_for_exit(std::shared_ptr<HostShell> shell) {
  const auto code = co_await shell->ended(Clock::now() + kExitLimit);
  if (!code) shell->terminate();
}

}  // namespace

Status KeptAgents::guard_containers(Duration patience) {
  if (engine_) return {};
  const auto socket = docker_socket(std::getenv("DOCKER_HOST"));
  if (!socket) return std::unexpected(socket.error());
  containers_ = fmt::format("{}={}", kLauncherLabel, launcher_label(own_identity()));
  if (Status guarded = guardian_.start(*socket, containers_, patience); !guarded) return guarded;
  engine_ = std::make_unique<DockerEngine>(executor_, *socket);
  return {};
}

// If the engine hangs, the guardian has to remove the objects that are left.
awaitable<void> KeptAgents::remove_containers() {
  const auto removed = co_await remove_labelled(*engine_, {containers_}, Clock::now() + kRemoveLimit);
  if (removed) {
    guardian_.dismiss();
  } else {
    guardian_.hurry();
  }
}

void KeptAgents::put(const std::string& place, KeptAgent agent) {
  waiting_[place].push_back(std::move(agent));
}

std::optional<KeptAgent> KeptAgents::take(const std::string& place) {
  auto& waiting = waiting_[place];
  while (!waiting.empty()) {
    KeptAgent agent = std::move(waiting.back());
    waiting.pop_back();
    if (!agent.stream->closed()) return agent;
    tasks_.spawn(wait_for_exit(std::move(agent.shell)));  // it was killed, or its host is gone
  }
  return std::nullopt;
}

void KeptAgents::close() {
  for (auto& [host, agents] : std::exchange(waiting_, {})) {
    for (KeptAgent& agent : agents) {
      agent.stream->close();
      tasks_.spawn(wait_for_exit(std::move(agent.shell)));
    }
  }
  if (engine_) tasks_.spawn(remove_containers());
}

}  // namespace muster::launcher
