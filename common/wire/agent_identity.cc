#include "common/wire/agent_identity.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"

namespace muster::wire {

std::string as_text(const AgentIdentity& identity) {
  return fmt::format("{}/{}/{}/{}", identity.job, identity.role, identity.agent.node,
                     identity.agent.incarnation);
}

std::optional<AgentIdentity> parse_agent_identity(std::string_view text) {
  const auto parts = split(text, '/');
  if (parts.size() < 4) return std::nullopt;
  const auto node = parse_number<std::int32_t>(parts[parts.size() - 2]);
  const auto incarnation = parse_number<std::uint32_t>(parts.back());
  if (parts[0].empty() || !node || *node < 0 || !incarnation || *incarnation == 0) return std::nullopt;
  const std::string_view job = parts[0];
  const std::size_t numbers = parts[parts.size() - 2].size() + parts.back().size() + 2;
  const std::string_view role = text.substr(job.size() + 1, text.size() - numbers - job.size() - 1);
  AgentIdentity identity{std::string(job), std::string(role), {NodeId(*node), Incarnation(*incarnation)}};
  if (as_text(identity) != text) return std::nullopt;  // for example, if a number is written as 007
  return identity;
}

std::string peer_identity(std::string_view job, AgentId one, AgentId other) {
  if (other < one) std::swap(one, other);
  return fmt::format("{}/peer/{}-{}/{}-{}", job, one.node, other.node, one.incarnation, other.incarnation);
}

}  // namespace muster::wire
