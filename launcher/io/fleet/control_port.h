// TCP ports where agents without an inherited socket connect over TLS.
//
// Each agent has a key of its own, made for its identity, JOB/ROLE/NODE/INCARNATION; the bootstrap carries
// the key to the agent. The port disconnects a caller without a key and never reports it. It does the same
// with an agent whose node has a newer incarnation. Must live as long as the task group that it was opened
// with. One thread.
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

  // The addresses that an agent may use: "10.0.0.1:4711,[fd00::1]:4712", in the order of open().
  std::string addresses() const;
  // The identity that this agent has to prove. `_` replaces letters of the role that shells might interpret.
  static std::string identity_of(const Plan& plan, AgentId agent);
  // Lets this agent connect from now on, and locks out earlier incarnations of its node. Returns the agent's
  // key, 64 hexadecimal digits; the same one for each call.
  std::string invite(AgentId agent);
  // Makes the agent's key invalid. The next invite() makes a new one.
  void withdraw(AgentId agent);
  // The first call loads the TLS module and begins to accept; until then callers wait. An error names the
  // file.
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
