// The TCP ports that agents without an inherited socket call, over TLS, each with a key of its own.
//
// A key is made for one agent's identity, JOB/ROLE/NODE/INCARNATION; the bootstrap carries it to the agent. A
// caller without a key is cut off and never heard of, and so is an agent whose place a later incarnation has
// taken. Must live as long as the task group that it was opened with. One thread.
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
  // From now on this agent may call, and no earlier incarnation of it. Its key, 64 hexadecimal digits, the
  // same each time.
  std::string invite(AgentId agent);
  // Loads what TLS needs, at the first call: until then callers wait. An error names it.
  Status start();
  void stop();

 private:
  ControlPort(net::TaskGroup& tasks, const Plan& plan, OnAgent on_agent);

  // The agent of this identity, if it is invited.
  std::optional<AgentId> guest(std::string_view identity) const;

  net::TaskGroup& tasks_;
  OnAgent on_agent_;
  const net::Tls* tls_ = nullptr;  // not loaded yet
  std::string job_;
  std::string role_;
  struct Guest {  // the newest of its node
    Incarnation incarnation;
    net::Key key;
  };
  std::map<NodeId, Guest> invited_;
  std::vector<std::pair<std::string, std::unique_ptr<net::Listener>>> listeners_;  // by address
};

}  // namespace muster::launcher
