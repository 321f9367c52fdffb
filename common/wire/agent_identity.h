// The names to which keys belong: who an agent proves to be, and which two agents share a key, as agents will
// that talk to each other.
//
// A name holds the incarnation of each agent in it, so that a key dies with its process. No name of one kind
// is one of the other. Plain functions; safe in any thread. Keys are made elsewhere: the launcher's for an
// agent at random (launcher/io/fleet/control_port.cc), that of two agents of their name (common/net/tls.h).
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
// Nothing if as_text() does not write it so.
std::optional<AgentIdentity> parse_agent_identity(std::string_view text);

// "JOB/peer/A-B/I-J": the nodes, the lower first, and their incarnations; the same from either end.
std::string peer_identity(std::string_view job, AgentId one, AgentId other);

}  // namespace muster::wire
