#include "agent/core/start/agent_arguments.h"

#include <map>
#include <string_view>

#include "common/base/text.h"
#include "common/wire/agent_identity.h"

namespace muster::agent {

namespace {

Status parse_peer(const std::string& peer, Arguments& arguments) {
  const std::size_t colon = peer.rfind(':');
  const auto port =
      colon == std::string::npos ? std::nullopt : parse_number<std::uint16_t>(peer.substr(colon + 1));
  if (!port) return failure(ErrorCode::kInvalidArgument, "--connect: expected ADDRESS:PORT, got '{}'", peer);
  arguments.port = *port;
  arguments.address = peer.substr(0, colon);
  const bool bracketed = arguments.address.starts_with('[') && arguments.address.ends_with(']');
  if (bracketed) arguments.address = arguments.address.substr(1, arguments.address.size() - 2);
  return {};
}

}  // namespace

Expected<Arguments> parse_arguments(const std::vector<std::string>& words) {
  std::map<std::string, std::string> given;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const bool known = words[i] == "--control-fd" || words[i] == "--connect" || words[i] == "--identity" ||
                       words[i] == "--node" || words[i] == "--incarnation";
    if (!known) return failure(ErrorCode::kInvalidArgument, "unknown argument '{}'", words[i]);
    if (i + 1 == words.size())
      return failure(ErrorCode::kInvalidArgument, "{}: a value is missing", words[i]);
    given[words[i]] = words[i + 1];
  }
  Arguments arguments;
  const auto node = parse_number<std::int32_t>(given["--node"]);
  if (!node || *node < 0) return failure(ErrorCode::kInvalidArgument, "--node: expected a number from 0");
  arguments.agent.node = NodeId(*node);
  if (given.contains("--incarnation")) {
    const auto incarnation = parse_number<std::uint32_t>(given["--incarnation"]);
    if (!incarnation || *incarnation == 0)
      return failure(ErrorCode::kInvalidArgument, "--incarnation: expected a number from 1");
    arguments.agent.incarnation = Incarnation(*incarnation);
  }
  if (given.contains("--control-fd") == given.contains("--connect")) {
    return failure(ErrorCode::kInvalidArgument, "expected either --control-fd or --connect");
  }
  if (given.contains("--connect")) {
    arguments.identity = given["--identity"];
    const auto identity = wire::parse_agent_identity(arguments.identity);
    if (!identity || identity->agent != arguments.agent)
      return failure(ErrorCode::kInvalidArgument,
                     "--identity: expected JOB/ROLE/{}/{} with --connect, got '{}'", arguments.agent.node,
                     arguments.agent.incarnation, arguments.identity);
    if (Status parsed = parse_peer(given["--connect"], arguments); !parsed)
      return std::unexpected(parsed.error());
    return arguments;
  }
  arguments.control_fd = parse_number<int>(given["--control-fd"]);
  if (!arguments.control_fd || *arguments.control_fd < 0) {
    return failure(ErrorCode::kInvalidArgument, "--control-fd: expected a descriptor");
  }
  return arguments;
}

}  // namespace muster::agent
