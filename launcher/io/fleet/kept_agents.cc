#include "launcher/io/fleet/kept_agents.h"

#include <fmt/format.h>
#include <utility>

namespace muster::launcher {

namespace {

constexpr Duration kExitLimit = std::chrono::seconds(1);

// Without its stream an agent exits; without its shell it notices the same a little later.
awaitable<void> wait_for_exit(std::shared_ptr<HostShell> shell) {
  const auto code = co_await shell->ended(Clock::now() + kExitLimit);
  if (!code) shell->terminate();
}

std::string place_of(const Host& host) {
  return fmt::format("{}:{}", address_of(host), host.port);
}

}  // namespace

void KeptAgents::put(const Host& host, KeptAgent agent) {
  waiting_[place_of(host)].push_back(std::move(agent));
}

std::optional<KeptAgent> KeptAgents::take(const Host& host) {
  auto& waiting = waiting_[place_of(host)];
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
}

}  // namespace muster::launcher
