#include "launcher/io/fleet/control_port.h"

namespace muster::launcher {

Expected<std::unique_ptr<ControlPort>> ControlPort::open(const asio::any_io_executor& executor,
                                                         net::TaskGroup& tasks, const Plan& plan,
                                                         OnAgent on_agent) {
  const auto tls = net::Tls::load();
  if (!tls) return std::unexpected(tls.error());
  auto listener = net::Listener::open(executor, "127.0.0.1", 0);
  if (!listener) return std::unexpected(listener.error());
  std::unique_ptr<ControlPort> port(new ControlPort(plan, **tls, std::move(*listener)));
  ControlPort* const self = port.get();
  const auto node_of = [self](std::string_view identity) -> std::optional<NodeId> {
    for (const NodeId node : self->nodes_) {
      if (identity == self->identity_of(node)) return node;
    }
    return std::nullopt;
  };
  const auto find_key = [self, node_of](std::string_view identity) -> std::optional<net::Key> {
    if (!node_of(identity)) return std::nullopt;
    return self->tls_.derive_key(self->secret_, identity);
  };
  const auto accept = [node_of, on_agent](std::shared_ptr<net::Connection> connection) {
    if (const auto node = node_of(connection->identity())) on_agent(*node, std::move(connection));
  };
  port->listener_->start(tasks, find_key, accept, {});
  return port;
}

ControlPort::ControlPort(const Plan& plan, const net::Tls& tls, std::unique_ptr<net::Listener> listener)
    : tls_(tls),
      job_and_role_(fmt::format("{}/{}", plan.job.job_id, plan.job.role)),
      listener_(std::move(listener)),
      secret_(net::make_key()) {
  for (std::int32_t node = 0; node < plan.agent_count(); ++node) nodes_.emplace_back(node);
}

std::string ControlPort::key_of(NodeId node) const {
  return net::to_hex(tls_.derive_key(secret_, identity_of(node)));
}

}  // namespace muster::launcher
