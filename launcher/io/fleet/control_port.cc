#include "launcher/io/fleet/control_port.h"

#include <algorithm>
#include <cctype>

#include "common/base/log.h"
#include "common/wire/agent_identity.h"

namespace muster::launcher {

namespace {

constexpr std::size_t kStrangersOfAHost = 16;  // connections of one address that have not proven a key

std::string plain(std::string role) {
  std::ranges::replace_if(
      role, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.'; }, '_');
  return role;
}

}  // namespace

Expected<std::unique_ptr<ControlPort>> ControlPort::open(const asio::any_io_executor& executor,
                                                         net::TaskGroup& tasks, const Plan& plan,
                                                         const std::vector<std::string>& addresses,
                                                         OnAgent on_agent) {
  std::unique_ptr<ControlPort> port(new ControlPort(tasks, plan, std::move(on_agent)));
  for (const std::string& address : addresses) {
    auto listener = net::Listener::open(executor, address, 0);
    if (listener) {
      port->listeners_.emplace_back(address, std::move(*listener));
      continue;
    }
    // An address that the launcher has found by itself may be gone by now, or may not be usable yet (a
    // tentative IPv6 address). The launcher skips such an address if it has another one.
    const bool others = !port->listeners_.empty() || &address != &addresses.back();
    if (!plan.remote.listen.empty() || !others) return std::unexpected(listener.error());
    log::info("{}; skipping this address", listener.error().message());
  }
  return port;
}

ControlPort::ControlPort(net::TaskGroup& tasks, const Plan& plan, OnAgent on_agent)
    : tasks_(tasks), on_agent_(std::move(on_agent)), job_(plan.job.job_id), role_(plain(plan.job.role)) {}

Status ControlPort::start() {
  if (tls_ != nullptr) return {};
  const auto tls = net::Tls::load();
  if (!tls) return std::unexpected(tls.error());
  tls_ = *tls;
  const auto find_key = [this](std::string_view identity) -> std::optional<net::Key> {
    const auto agent = guest(identity);
    if (!agent) return std::nullopt;
    return invited_.at(agent->node).key;
  };
  const auto accept = [this](std::shared_ptr<net::Connection> connection) {
    // A newer incarnation may have been invited since find_key().
    const auto agent = guest(connection->identity());
    if (!agent) return connection->close();
    on_agent_(*agent, std::move(connection));
  };
  for (const auto& [address, listener] : listeners_) {
    net::Listener::Limits limits;
    // All agents on this machine share the loopback address. So there is no limit for the loopback address.
    if (!asio::ip::make_address(address).is_loopback()) limits.unproven_of_an_address = kStrangersOfAHost;
    listener->start(*tls_, tasks_, find_key, accept, limits);
  }
  return {};
}

std::string ControlPort::identity_of(const Plan& plan, AgentId agent) {
  return wire::as_text({plan.job.job_id, plain(plan.job.role), agent});
}

std::string ControlPort::addresses() const {
  std::string all;
  for (const auto& [address, listener] : listeners_)
    all += fmt::format("{}{}:{}", all.empty() ? "" : ",",
                       address.contains(':') ? fmt::format("[{}]", address) : address, listener->port());
  return all;
}

void ControlPort::stop() {
  for (const auto& [address, listener] : listeners_) listener->stop();
}

std::optional<AgentId> ControlPort::guest(std::string_view identity) const {
  const auto caller = wire::parse_agent_identity(identity);
  if (!caller || caller->job != job_ || caller->role != role_) return std::nullopt;
  const auto invited = invited_.find(caller->agent.node);
  if (invited == invited_.end() || invited->second.incarnation != caller->agent.incarnation)
    return std::nullopt;
  return caller->agent;
}

std::string ControlPort::invite(AgentId agent) {
  const auto [newest, is_new] = invited_.try_emplace(agent.node, agent.incarnation, net::make_key());
  if (newest->second.incarnation < agent.incarnation) newest->second = {agent.incarnation, net::make_key()};
  return net::to_hex(newest->second.key);
}

void ControlPort::withdraw(AgentId agent) {
  const auto invited = invited_.find(agent.node);
  if (invited != invited_.end() && invited->second.incarnation == agent.incarnation) invited_.erase(invited);
}

}  // namespace muster::launcher
