// The agent's command line: which node it is, and how it reaches its launcher.
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

struct Arguments {
  AgentId agent{NodeId(), Incarnation(1)};
  std::optional<int> control_fd;  // or, without it, the three below
  std::string address;
  std::uint16_t port = 0;
  std::string identity;
};

// Errors name the argument.
Expected<Arguments> parse_arguments(const std::vector<std::string>& words);

}  // namespace muster::agent
