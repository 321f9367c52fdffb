// TCP ports for agents that have not inherited a socket from the launcher. They connect here over TLS.
//
// Each agent has a key of its own, made for its identity, JOB/ROLE/NODE/INCARNATION. The bootstrap carries
// the key to the agent. The port disconnects a caller without a key, and reports nothing. It also disconnects
// an agent after invite() was called for a newer incarnation of the same node. The port must live as long as
// the task group that it was opened with. One thread.
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
  // Called for a connection whose peer has proven to be this agent.
  using OnAgent = std::function<void(AgentId agent, std::shared_ptr<net::Connection> connection)>;
  // Listens on a free port of each address. Skips an address that cannot be used. It is an error if --listen
  // names such an address, or if no address is left.
  static Expected<std::unique_ptr<ControlPort>> open(const asio::any_io_executor& executor,
                                                     net::TaskGroup& tasks, const Plan& plan,
                                                     const std::vector<std::string>& addresses,
                                                     OnAgent on_agent);
  ControlPort(const ControlPort&) = delete;
  ControlPort& operator=(const ControlPort&) = delete;

  // Returns the addresses that an agent may use, such as "10.0.0.1:4711,[fd00::1]:4712". They are in the
  // order in which open() got them.
  std::string addresses() const;
  // Returns the identity that this agent has to prove. It consists of the job's id, the job's role, the node
  // and the incarnation. If a shell might interpret a letter of the role, `_` takes the place of this letter.
  static std::string identity_of(const Plan& plan, AgentId agent);
  // Lets this agent connect from now on. Earlier incarnations of its node cannot connect any more. Returns
  // the agent's key, which has 64 hexadecimal digits. Each call returns the same key.
  std::string invite(AgentId agent);
  // Makes the agent's key invalid. The next invite() makes a new one.
  void withdraw(AgentId agent);
  // The first call loads the TLS module, and begins to accept connections. Agents that connect before that
  // have to wait. An error names the file of that module.
  Status start();
  void stop();

 private:
  ControlPort(net::TaskGroup& tasks, const Plan& plan, OnAgent on_agent);

  // Returns the agent that has this identity, if it is invited.
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
