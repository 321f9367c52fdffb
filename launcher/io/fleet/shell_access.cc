#include "launcher/io/fleet/shell_access.h"

#include <utility>

#include "common/net/tls.h"
#include "launcher/core/fleet/container_script.h"
#include "launcher/core/fleet/container_spec.h"

namespace muster::launcher {

namespace {

constexpr Duration kDeliveryLimit = std::chrono::minutes(2);
constexpr Duration kPullLimit = std::chrono::minutes(30);
constexpr Duration kShellLimit = std::chrono::seconds(1);
constexpr Duration kShellFinishLimit = std::chrono::seconds(3);

}  // namespace

ShellAccess::ShellAccess(const asio::any_io_executor& executor, const Plan& plan, std::string agent_program,
                         const rlimit& descriptors)
    : executor_(executor), plan_(plan), delivery_(std::move(agent_program)), descriptors_(descriptors) {}

std::string ShellAccess::name() const {
  return plan_.remote.bootstrap == BootstrapKind::kExec ? plan_.remote.exec.front() : "ssh";
}

// Returns the address and the port of the host. For an agent in a container it returns "", because the
// container is made for one job.
std::string ShellAccess::place(NodeId node) const {
  const Host& host = host_of(node);
  return plan_.remote.in_containers() ? "" : fmt::format("{}:{}", address_of(host), host.port);
}

awaitable<HostAccess::Shell> ShellAccess::start_agent(AgentId agent, Words arguments) {
  const auto place = agent_place();
  if (!place) co_return std::unexpected(place.error());
  if (!plan_.remote.in_containers())
    co_return run(agent.node, agent_shell(plan_.remote, host_of(agent.node), *place, arguments));
  containers_.insert(agent.node);
  co_return open(agent.node, start_container_script(plan_, agent, *place,
                                                    net::Tls::file_beside(kAgentInContainer), arguments));
}

awaitable<Expected<HostAccess::Errand>> ShellAccess::bring(NodeId node, HostStart::Missing missing) {
  if (missing == HostStart::Missing::kImage) {
    auto shell = open(node, pull_script(plan_.remote.container.image));
    if (!shell) co_return std::unexpected(shell.error());
    co_return Errand{*std::move(shell), std::make_shared<std::string>(), kPullLimit,
                     fmt::format("cannot pull the image {} there", plan_.remote.container.image)};
  }
  const auto place = delivery_.place();
  if (!place) co_return std::unexpected(place.error());
  auto tar = delivery_.tar();
  if (!tar) co_return std::unexpected(tar.error());
  auto shell = open(node, delivery_script(*place));
  if (!shell) co_return std::unexpected(shell.error());
  co_return Errand{*std::move(shell), *std::move(tar), kDeliveryLimit, "cannot copy the agent there"};
}

awaitable<bool> ShellAccess::kill_agent(AgentId agent, AgentGreeting greeting) {
  const auto killer =
      open(agent.node, plan_.remote.in_containers() ? kill_container_script(plan_, agent)
                                                    : kill_script(greeting.pid, greeting.start_ticks));
  if (!killer) co_return true;  // there is nothing to wait for
  const auto code = co_await (*killer)->ended(Clock::now() + kShellLimit);
  (*killer)->terminate();
  co_return code.has_value();
}

awaitable<std::optional<std::vector<Leftover>>> ShellAccess::sweep(AgentId below, bool kill) {
  Shell shell;
  if (plan_.remote.in_containers()) {
    shell = open(below.node, sweep_container_script(plan_, below, kill));
  } else {
    const auto place = agent_place();
    if (!place) co_return std::nullopt;
    Words words = {"--sweep", plan_.job.job_id, "--node", fmt::format("{}", below.node)};
    if (below.incarnation > Incarnation())
      words.insert(words.end(), {"--below", fmt::format("{}", below.incarnation)});
    if (kill) words.emplace_back("--kill");
    shell = run(below.node, agent_shell(plan_.remote, host_of(below.node), *place, words));
  }
  if (!shell) co_return std::nullopt;
  (*shell)->end_input();
  std::vector<Leftover> left;
  const TimePoint deadline = Clock::now() + kShellLimit;
  for (;;) {
    const auto line = co_await (*shell)->read_line(deadline);
    if (!line || line->starts_with("muster-agent absent")) break;  // the host never had an agent
    if (auto each = parse_leftover(*line)) left.emplace_back(*std::move(each)).node = below.node;
    if (*line == "swept") co_return left;
  }
  (*shell)->terminate();
  co_return std::nullopt;
}

// Removes the containers of all nodes, even those that never started: `docker run` may have been interrupted
// after it had created its container.
awaitable<void> ShellAccess::finish() {
  std::vector<std::shared_ptr<HostShell>> sweeps;
  for (const NodeId node : containers_) {
    const auto shell = open(node, sweep_container_script(plan_, {node, Incarnation()}, /*kill=*/true));
    if (shell) sweeps.push_back(*shell);
  }
  const TimePoint deadline = Clock::now() + kShellFinishLimit;
  for (const auto& shell : sweeps) (void)co_await shell->ended(deadline);
}

HostAccess::Shell ShellAccess::open(NodeId node, std::string_view script) const {
  return run(node, host_shell(plan_.remote, host_of(node), script));
}

HostAccess::Shell ShellAccess::run(NodeId node, Words words) const {
  return ChildShell::start(executor_, std::move(words), plan_.agent_log(node), descriptors_);
}

const Host& ShellAccess::host_of(NodeId node) const {
  return plan_.hosts.at(static_cast<std::size_t>(node.value()));
}

Expected<AgentPlace> ShellAccess::agent_place() {
  if (plan_.remote.remote_agent.empty()) return delivery_.place();
  if (remote_agent_.path.empty())
    remote_agent_ = {.path = plan_.remote.remote_agent,
                     .digest = "",
                     .module = net::Tls::file_beside(plan_.remote.remote_agent)};
  return remote_agent_;
}

}  // namespace muster::launcher
