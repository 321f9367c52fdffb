// `launch dump`: the stacks of every rank of a running job, or of some.
#include <set>

#include "common/wire/json.h"
#include "launcher/commands/conversation.h"
#include "launcher/commands/invocation.h"
#include "launcher/core/text/number_ranges.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

namespace {

constexpr Duration kDumpLimit = std::chrono::seconds(10);  // the launcher itself waits 3 s for the ranks

std::string text_of(const JobEntry& job, Rank rank, const std::string& stacks) {
  std::string where;
  for (const NodePlan& node : job.record.nodes) {
    if (node.has(rank)) where = fmt::format(" ({})", job.record.names.within(node.node));
  }
  return fmt::format("---- rank {}{} ----\n{}{}", rank, where, stacks, stacks.ends_with('\n') ? "" : "\n");
}

struct Wanted {
  NumberRanges ranks;
  std::set<std::int32_t> left;  // those that --rank names and that have not answered
};

// If this line of the answer is about a wanted rank, prints it. If it is the last line, or if all wanted
// ranks have been printed, returns the exit code. Otherwise returns nothing.
std::optional<int> show(const JobEntry& job, const std::string& line, Wanted& wanted, bool json) {
  const nlohmann::json answer = parse_shallow_json(line);
  if (answer.contains("error")) {
    return refuse(Error(ErrorCode::kUnavailable, answer["error"].get<std::string>()), 1);
  }
  if (answer.contains("rank")) {
    const Rank rank(whole_number<std::int32_t>(answer["rank"]));
    if (!wanted.ranks.contains(rank.value())) return std::nullopt;
    print(json ? line + "\n" : text_of(job, rank, answer.at("text").get<std::string>()));
    return wanted.left.erase(rank.value()) > 0 && wanted.left.empty() ? std::optional(0) : std::nullopt;
  }
  std::string missing;
  for (const nlohmann::json& rank : answer.at("missing")) {
    const auto number = whole_number<std::int32_t>(rank);
    if (wanted.ranks.contains(number)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", number);
  }
  if (missing.empty()) return 0;
  return refuse(Error(ErrorCode::kTimedOut, fmt::format("no answer within 3 s from rank {}", missing)), 1);
}

}  // namespace

int dump(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  const auto ranks = NumberRanges::parse(arguments->value("rank"), "--rank");
  if (!ranks) return refuse(ranks.error(), kExitUsage);
  const auto job = find_job(*arguments, invocation.here, Preferred::kRunning);
  if (!job) return refuse(job.error(), kExitUsage);
  if (const auto unknown = ranks->beyond(job->record.world_size))
    return refuse(Error(ErrorCode::kInvalidArgument,
                        fmt::format("--rank: {} has ranks 0 to {}, and not {}", job->record.job_id,
                                    job->record.world_size - 1, *unknown)),
                  kExitUsage);
  auto conversation = Conversation::ask(*job, R"({"command": "dump"})");
  if (!conversation) return refuse(conversation.error(), 1);
  Wanted wanted{*ranks, {}};
  for (const auto& [first, last] : ranks->ranges())
    for (std::int32_t rank = first; rank <= last; ++rank) wanted.left.insert(rank);
  for (;;) {
    const auto line = conversation->next(kDumpLimit);
    if (!line) return refuse(line.error(), 1);
    if (!*line)
      return refuse(Error(ErrorCode::kUnavailable, "the launcher closed the connection: the job has ended"),
                    1);
    try {
      if (const auto exit_code = show(*job, **line, wanted, arguments->has("json"))) return *exit_code;
    } catch (const nlohmann::json::exception& error) {
      return refuse(Error(ErrorCode::kCorrupt, error.what()), 1);
    }
  }
}

}  // namespace muster::launcher
