// `launch nodes`: lists the nodes of a running job, or adds some.
#include <fmt/ranges.h>

#include "common/wire/json.h"
#include "launcher/commands/conversation.h"
#include "launcher/commands/invocation.h"
#include "launcher/core/settings/hosts.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/core/view/node_list.h"

namespace muster::launcher {

namespace {

constexpr Duration kAnswerLimit = std::chrono::seconds(10);
// A request can have at most 4 KiB (control_socket.cc), so a list of hosts can have only this many bytes.
constexpr std::size_t kMostHostsBytes = 3000;

Error wrong_use(const std::string& what) {
  return {ErrorCode::kInvalidArgument, what};
}

// Sends the request. Returns the launcher's answer, which is one line.
std::expected<std::string, int> ask(const CommandArguments& arguments, const Invocation& invocation,
                                    const std::string& request) {
  const auto job = find_job(arguments, invocation.here, Preferred::kRunning);
  if (!job) return std::unexpected(refuse(job.error(), kExitUsage));
  auto conversation = Conversation::ask(*job, request);
  if (!conversation) return std::unexpected(refuse(conversation.error(), 1));
  auto line = conversation->next(kAnswerLimit);
  if (!line) return std::unexpected(refuse(line.error(), 1));
  if (!*line)
    return std::unexpected(refuse(
        Error(ErrorCode::kUnavailable, "the launcher closed the connection: the job has just ended"), 1));
  return **std::move(line);
}

int list(const CommandArguments& arguments, const Invocation& invocation) {
  const auto line = ask(arguments, invocation, R"({"command": "nodes"})");
  if (!line) return line.error();
  const auto nodes = parse_node_list(*line);
  if (!nodes) return refuse(nodes.error(), 1);
  if (arguments.has("json")) return print(parse_shallow_json(*line).dump(2) + "\n");
  return print(node_list_as_text(*nodes, terminal_columns()));
}

int add(const CommandArguments& arguments, const Invocation& invocation, const std::string& hosts) {
  if (const auto parsed = parse_hosts(hosts, "nodes add"); !parsed) return refuse(parsed.error(), kExitUsage);
  if (hosts.size() > kMostHostsBytes)
    return refuse(wrong_use(fmt::format("nodes add: {} bytes of host names: give at most {}, "
                                        "and the other hosts with another command",
                                        hosts.size(), kMostHostsBytes)),
                  kExitUsage);
  const bool now = arguments.has("grow");
  if (now && arguments.value("grow") != "now")
    return refuse(
        wrong_use(fmt::format("--grow: {} is not now: give --grow now, or omit it", arguments.value("grow"))),
        kExitUsage);
  const nlohmann::json request = {{"command", "add_nodes"}, {"hosts", hosts}, {"now", now}};
  const auto line = ask(arguments, invocation, request.dump());
  if (!line) return line.error();
  try {
    const nlohmann::json answer = parse_shallow_json(*line);
    if (const auto error = answer.find("error"); error != answer.end())
      return refuse(wrong_use(error->get<std::string>()), kExitUsage);
    if (arguments.has("json")) return print(answer.dump(2) + "\n");
    return print(answer.at("told").get<std::string>() + "\n");
  } catch (const nlohmann::json::exception& error) {
    return refuse(
        Error(ErrorCode::kCorrupt, fmt::format("cannot read the launcher's answer: {}", error.what())), 1);
  }
}

}  // namespace

int nodes(const Invocation& invocation) {
  auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  std::vector<std::string>& words = arguments->operands;
  const bool adds = !words.empty() && words.front() == "add";
  if (adds && words.size() < 2)
    return refuse(wrong_use("nodes add: no host given: `launch nodes add HOST[,HOST...] [JOB]`"), kExitUsage);
  if (!adds && arguments->has("grow"))
    return refuse(wrong_use("--grow: needs hosts: `launch nodes add HOST[,HOST...] --grow now`"), kExitUsage);
  const std::string hosts = adds ? words[1] : "";
  if (adds) words.erase(words.begin(), words.begin() + 2);
  if (words.size() > 1)
    return refuse(wrong_use(fmt::format("{}: too many arguments: `launch nodes` takes one job; see "
                                        "`launch nodes --help`",
                                        words[1])),
                  kExitUsage);
  return adds ? add(*arguments, invocation, hosts) : list(*arguments, invocation);
}

}  // namespace muster::launcher
