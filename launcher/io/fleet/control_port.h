// The TCP ports that agents without an inherited socket call, over TLS, each with a key of its own.
//
// A key is derived for one agent's identity, JOB/ROLE/NODE/INCARNATION, from a secret made here; the
// bootstrap carries it to the agent. A caller without a key is cut off and never heard of, and so is an agent
// whose place a later incarnation has taken. Must live as long as the task group that it was opened with. One
// thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/net/listener.h"
#include "launcher/core/settings/plan.h"

namespace muster::launcher {

class ControlPort {
 public:
  // Hears of a connection whose peer has proven to be this agent.
  using OnAgent = std::function<void(AgentId agent, std::shared_ptr<net::Connection> connection)>;
  // Listens on each address, on a free port of its own.
  static Expected<std::unique_ptr<ControlPort>> open(const asio::any_io_executor& executor,
                                                     net::TaskGroup& tasks, const Plan& plan,
                                                     const std::vector<std::string>& addresses,
                                                     OnAgent on_agent);
  ControlPort(const ControlPort&) = delete;
  ControlPort& operator=(const ControlPort&) = delete;

  // What an agent may call: "10.0.0.1:4711,[fd00::1]:4712", in the order of open().
  std::string addresses() const;
  // Who this agent proves to be. What a shell might read otherwise is left out of the role.
  static std::string identity_of(const Plan& plan, AgentId agent);
  // From now on this agent may call, and no earlier incarnation of it. Its key, 64 hexadecimal digits. The
  // first call loads what TLS needs, while the first host shells start; callers wait until then. An error
  // names it.
  Expected<std::string> invite(AgentId agent);
  void stop();

 private:
  ControlPort(net::TaskGroup& tasks, const Plan& plan, OnAgent on_agent);

  Status start();

  // The agent of this identity, if it is invited.
  std::optional<AgentId> guest(std::string_view identity) const;

  net::TaskGroup& tasks_;
  OnAgent on_agent_;
  const net::Tls* tls_ = nullptr;  // not loaded yet
  std::string job_;
  std::string role_;
  std::map<NodeId, Incarnation> invited_;
  std::vector<std::pair<std::string, std::unique_ptr<net::Listener>>> listeners_;  // by address
  net::Key secret_;
};

}  // namespace muster::launcher
