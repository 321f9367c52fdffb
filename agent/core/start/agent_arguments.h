// The agent's command line: which node it is and how to reach its launcher, or what to sweep.
//
// Programs write this command line, not people. So --help does not explain it, but says who starts the agent.
// The command line never contains a key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/ids.h"

namespace muster::agent {

struct LauncherAddress {
  std::string address;  // an IPv6 address without brackets
  std::uint16_t port = 0;
};

// Orders the agent to look for processes, including other agents, that one node of a job has left on this
// host. After that the agent exits.
struct SweepOrder {
  std::string job;
  NodeId node;
  std::optional<Incarnation> below;  // spare what belongs to an agent of this incarnation or a later one
  bool kill = false;
  bool agents = true;  // false: do not look for agents; `below` then has no effect
};

struct Arguments {
  AgentId agent{NodeId(), Incarnation(1)};
  std::optional<int> control_fd;           // an inherited socket; excludes `addresses` and `stdio`
  std::vector<LauncherAddress> addresses;  // all are addresses of one launcher
  bool stdio = false;
  bool stdio_first = false;         // use stdio until an address is reached, then that address
  bool stays = false;               // with stdio: when the job is over, wait there for the next one
  std::string identity;             // required with addresses
  std::string job;                  // from the identity
  std::optional<SweepOrder> sweep;  // if set, the agent does nothing else
  std::optional<int> door;          // if set, the agent waits at this socket for one job after the other
};

// Returns the text that the agent prints if the only word is --help or --version. Else returns nothing.
std::optional<std::string> text_to_print(const std::vector<std::string>& words);
// Errors name the argument.
Expected<Arguments> parse_arguments(const std::vector<std::string>& words);

}  // namespace muster::agent
