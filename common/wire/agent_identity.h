// Names of keys. Each agent has a key for its connection to the launcher. Two agents that talk to each other
// share another key. In the TLS handshake, a client sends the name of its key.
//
// A name contains the incarnation of each agent. So a key is worthless once the process of the agent has
// ended. The two kinds of names always differ. The key for a connection to the launcher is random
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
// Parses an identity. Returns nothing if `text` is not exactly the text that as_text() writes.
std::optional<AgentIdentity> parse_agent_identity(std::string_view text);

// Returns "JOB/peer/A-B/I-J". A and B are the numbers of the two nodes, the lower one first. I and J are the
// incarnations of their agents. The result does not depend on the order of `one` and `other`.
std::string peer_identity(std::string_view job, AgentId one, AgentId other);

}  // namespace muster::wire
