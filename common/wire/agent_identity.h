// The names that keys belong to: the identity that an agent proves to the launcher, and the pair of agents
// that share a key to talk to each other.
//
// A name contains the incarnation of each agent, so that a key ends with its process. The two kinds of names
// never coincide. Plain functions; safe in any thread. Keys are made elsewhere: the launcher's key for an
// agent is random (launcher/io/fleet/control_port.cc), the key of two agents is derived from their name
// (common/net/tls.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/ids.h"

namespace muster::wire {

struct AgentIdentity {
  std::string job;   // without a slash
  std::string role;  // any text
  AgentId agent;
  bool operator==(const AgentIdentity&) const = default;
};

std::string as_text(const AgentIdentity& identity);  // "JOB/ROLE/NODE/INCARNATION"
// Returns nothing unless `text` is exactly what as_text() writes.
std::optional<AgentIdentity> parse_agent_identity(std::string_view text);

// "JOB/peer/A-B/I-J": the nodes, the lower first, and their incarnations. The same for both agents.
std::string peer_identity(std::string_view job, AgentId one, AgentId other);

}  // namespace muster::wire
