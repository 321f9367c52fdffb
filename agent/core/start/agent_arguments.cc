#include "agent/core/start/agent_arguments.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "common/base/text.h"
#include "common/base/version.h"
#include "common/wire/agent_identity.h"
#include "common/wire/frame.h"

namespace muster::agent {

namespace {

constexpr std::string_view kWithValue[] = {"--control-fd",  "--connect", "--identity", "--node",
                                           "--incarnation", "--sweep",   "--below",    "--door"};
constexpr std::string_view kWithout[] = {"--stdio", "--or-stdio", "--stdio-first", "--stays", "--kill"};

using Given = std::map<std::string, std::string>;

Expected<Given> take_apart(const std::vector<std::string>& words) {
  Given given;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& name = words[i];
    if (std::ranges::find(kWithout, name) != std::end(kWithout)) {
      given[name] = "";
      continue;
    }
    if (std::ranges::find(kWithValue, name) == std::end(kWithValue))
      return failure(ErrorCode::kInvalidArgument, "unknown argument '{}'", name);
    if (i + 1 == words.size()) return failure(ErrorCode::kInvalidArgument, "{}: a value is missing", name);
    given[name] = words[++i];
  }
  return given;
}

Expected<NodeId> node_of(const Given& given) {
  const auto name = given.find("--node");
  const auto node = name == given.end() ? std::nullopt : parse_number<std::int32_t>(name->second);
  if (!node || *node < 0) return failure(ErrorCode::kInvalidArgument, "--node: expected a number from 0");
  return NodeId(*node);
}

Expected<std::optional<Incarnation>> incarnation_of(const Given& given, const char* name) {
  const auto count = given.find(name);
  if (count == given.end()) return std::nullopt;
  const auto incarnation = parse_number<std::uint32_t>(count->second);
  if (!incarnation || *incarnation == 0)
    return failure(ErrorCode::kInvalidArgument, "{}: expected a number from 1", name);
  return Incarnation(*incarnation);
}

Expected<Arguments> parse_sweep(const Given& given, NodeId node) {
  constexpr std::string_view kOfSweep[] = {"--sweep", "--node", "--below", "--kill"};
  for (const auto& [name, value] : given) {
    if (std::ranges::find(kOfSweep, name) == std::end(kOfSweep))
      return failure(ErrorCode::kInvalidArgument, "{}: not with --sweep", name);
  }
  const auto below = incarnation_of(given, "--below");
  if (!below) return std::unexpected(below.error());
  const std::string& job = given.at("--sweep");
  if (job.empty()) return failure(ErrorCode::kInvalidArgument, "--sweep: expected a job");
  Arguments arguments;
  arguments.sweep = SweepOrder{job, node, *below, given.contains("--kill")};
  return arguments;
}

Expected<std::vector<LauncherAddress>> parse_addresses(std::string_view list) {
  std::vector<LauncherAddress> addresses;
  for (const std::string_view each : split(list, ',')) {
    const std::size_t colon = each.rfind(':');
    const auto port =
        colon == std::string::npos ? std::nullopt : parse_number<std::uint16_t>(each.substr(colon + 1));
    if (!port)
      return failure(ErrorCode::kInvalidArgument, "--connect: expected ADDRESS:PORT[,...], got '{}'", list);
    std::string_view address = each.substr(0, colon);
    if (address.starts_with('[') && address.ends_with(']')) address = address.substr(1, address.size() - 2);
    addresses.push_back({std::string(address), *port});
  }
  return addresses;
}

Status set_identity(const Given& given, Arguments& arguments) {
  const auto name = given.find("--identity");
  if (name == given.end() && !given.contains("--connect")) return {};
  if (name != given.end()) arguments.identity = name->second;
  const auto identity = wire::parse_agent_identity(arguments.identity);
  if (!identity || identity->agent != arguments.agent)
    return failure(ErrorCode::kInvalidArgument, "--identity: expected JOB/ROLE/{}/{}, got '{}'",
                   arguments.agent.node, arguments.agent.incarnation, arguments.identity);
  arguments.job = identity->job;
  return {};
}

}  // namespace

std::optional<std::string> text_to_print(const std::vector<std::string>& words) {
  if (words.size() != 1) return std::nullopt;
  const std::string version =
      fmt::format("muster-agent (Muster) {}, protocol version {}\n", kVersion, wire::kVersion);
  if (words[0] == "--version") return version;
  if (words[0] != "--help" && words[0] != "-h") return std::nullopt;
  return version +
         "Runs on each node of a job: starts the ranks, watches them and ends them.\n"
         "The program `launch` starts it, and people do not. Both must have the same version.\n"
         "See `launch --help` and `man launch`.\n";
}

Expected<Arguments> parse_arguments(const std::vector<std::string>& words) {
  const auto given = take_apart(words);
  if (!given) return std::unexpected(given.error());
  if (given->contains("--door")) {
    Arguments arguments;
    arguments.door = parse_number<int>(given->at("--door"));
    if (!arguments.door || *arguments.door < 0 || given->size() > 1)
      return failure(ErrorCode::kInvalidArgument, "--door: expected a descriptor, and nothing else");
    return arguments;
  }
  const auto node = node_of(*given);
  if (!node) return std::unexpected(node.error());
  if (given->contains("--sweep")) return parse_sweep(*given, *node);
  for (const char* name : {"--below", "--kill"}) {
    if (given->contains(name)) return failure(ErrorCode::kInvalidArgument, "{}: only with --sweep", name);
  }
  const auto incarnation = incarnation_of(*given, "--incarnation");
  if (!incarnation) return std::unexpected(incarnation.error());
  Arguments arguments;
  arguments.agent = {*node, incarnation->value_or(Incarnation(1))};
  if (given->contains("--control-fd") + given->contains("--connect") + given->contains("--stdio") != 1)
    return failure(ErrorCode::kInvalidArgument, "expected one of --control-fd, --connect and --stdio");
  for (const char* name : {"--or-stdio", "--stdio-first"}) {
    if (given->contains(name) && !given->contains("--connect"))
      return failure(ErrorCode::kInvalidArgument, "{}: expected with --connect only", name);
  }
  arguments.stays = given->contains("--stays");
  if (arguments.stays && !given->contains("--stdio") && !given->contains("--stdio-first"))
    return failure(ErrorCode::kInvalidArgument, "--stays: expected with --stdio or --stdio-first only");
  if (const auto fd = given->find("--control-fd"); fd != given->end()) {
    arguments.control_fd = parse_number<int>(fd->second);
    if (!arguments.control_fd || *arguments.control_fd < 0)
      return failure(ErrorCode::kInvalidArgument, "--control-fd: expected a descriptor");
    return arguments;
  }
  if (Status set = set_identity(*given, arguments); !set) return std::unexpected(set.error());
  arguments.stdio = given->contains("--stdio") || given->contains("--or-stdio");
  arguments.stdio_first = given->contains("--stdio-first");
  if (const auto list = given->find("--connect"); list != given->end()) {
    auto addresses = parse_addresses(list->second);
    if (!addresses) return std::unexpected(addresses.error());
    arguments.addresses = *std::move(addresses);
  }
  return arguments;
}

}  // namespace muster::agent
