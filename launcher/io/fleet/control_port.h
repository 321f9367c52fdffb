// The TCP port that agents without an inherited socket call, over TLS, each with a key of its own.
//
// A key is derived for one agent's identity, JOB/ROLE/NODE, from a secret made here; the bootstrap carries it
// to the agent. Who calls without it is cut off and never heard of. Must live as long as the task group that
// it was opened with. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/ids.h"
#include "common/net/listener.h"
#include "launcher/core/settings/plan.h"

namespace muster::launcher {

class ControlPort {
 public:
  // Of an agent that has proven to be the node's.
  using OnAgent = std::function<void(NodeId node, std::shared_ptr<net::Connection> connection)>;
  static Expected<std::unique_ptr<ControlPort>> open(const asio::any_io_executor& executor,
                                                     net::TaskGroup& tasks, const Plan& plan,
                                                     OnAgent on_agent);
  ControlPort(const ControlPort&) = delete;
  ControlPort& operator=(const ControlPort&) = delete;

  std::uint16_t port() const { return listener_->port(); }
  std::string identity_of(NodeId node) const { return fmt::format("{}/{}", job_and_role_, node); }
  std::string key_of(NodeId node) const;  // 64 hexadecimal digits
  void stop() { listener_->stop(); }

 private:
  ControlPort(const Plan& plan, const net::Tls& tls, std::unique_ptr<net::Listener> listener);

  const net::Tls& tls_;
  std::string job_and_role_;
  std::vector<NodeId> nodes_;
  std::unique_ptr<net::Listener> listener_;
  net::Key secret_;
};

}  // namespace muster::launcher
