// The agent's command line: which node it is and how it reaches its launcher, or what to sweep.
//
// The command line is written by a bootstrap, not by people, so there are no defaults and no help. A key
// never stands on it.
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

// To look for what is left on this host of one node of a job, and exit.
struct SweepOrder {
  std::string job;
  NodeId node;
  std::optional<Incarnation> below;  // what belongs to an agent of this incarnation or a later one is kept
  bool kill = false;
  bool agents = true;  // if not, agents are neither looked for nor known: `below` is without effect
};

struct Arguments {
  AgentId agent{NodeId(), Incarnation(1)};
  std::optional<int> control_fd;           // or one of the next two, or both: stdio is then the second choice
  std::vector<LauncherAddress> addresses;  // of one launcher
  bool stdio = false;
  bool stdio_first = false;         // until one of the addresses is reached, and then no more
  std::string identity;             // with addresses; may be empty without
  std::string job;                  // of the identity
  std::optional<SweepOrder> sweep;  // nothing else then
};

// Errors name the argument.
Expected<Arguments> parse_arguments(const std::vector<std::string>& words);

}  // namespace muster::agent
