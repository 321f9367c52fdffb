// The names that keys belong to: an agent has a key for its connection to the launcher, and two agents that
// talk to each other share a key.
//
// A name contains the incarnation of each agent, so that a key is worthless once the agent's process has
// ended. The two kinds of names are always different. An agent's key for the launcher is random
// (launcher/io/fleet/control_port.cc). The key of two agents is derived from their name (common/net/tls.h).
// Safe from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"

namespace muster::wire {

struct AgentIdentity {
  std::string job;   // without a slash
  std::string role;  // any text, also with slashes
  AgentId agent;
  bool operator==(const AgentIdentity&) const = default;
};

std::string as_text(const AgentIdentity& identity);  // "JOB/ROLE/NODE/INCARNATION"
// Returns nothing unless `text` is exactly what as_text() writes.
std::optional<AgentIdentity> parse_agent_identity(std::string_view text);

// Returns "JOB/peer/A-B/I-J": nodes A and B, the lower one first, and the incarnations I and J of their
// agents. The order of `one` and `other` does not matter.
std::string peer_identity(std::string_view job, AgentId one, AgentId other);

}  // namespace muster::wire
