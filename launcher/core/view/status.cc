#include "launcher/core/view/status.h"

#include <cmath>

#include "launcher/core/settings/job_json.h"
#include "launcher/core/text/duration.h"
#include "launcher/core/text/table.h"
#include "launcher/core/text/words.h"
#include "launcher/core/view/job_list.h"

namespace muster::launcher {

namespace {

using nlohmann::ordered_json;

std::optional<std::int64_t> whole_or_nothing(const nlohmann::json& value) {
  return value.is_null() ? std::nullopt : std::optional(whole_number<std::int64_t>(value));
}

std::optional<double> number_or_nothing(const nlohmann::json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

// Returns the loss, or null if there is none. JSON has no number for NaN. This function writes it as the text
// "nan", because users should see that a loss is NaN.
ordered_json loss_json(const std::optional<double>& loss) {
  if (!loss || std::isfinite(*loss)) return or_null(loss);
  return "nan";
}

std::optional<double> loss_of(const nlohmann::json& value) {
  return value.is_string() ? std::nan("") : number_or_nothing(value);
}

ordered_json usage_json(const wire::RankUsage& usage) {
  ordered_json json = {{"cpu_seconds", static_cast<double>(usage.cpu_ns) / 1e9},
                       {"age_seconds", static_cast<double>(usage.age_ns) / 1e9},
                       {"memory_bytes", usage.memory_bytes}};
  const auto add = [&json](const char* name, std::int64_t value) {
    json[name] = value < 0 ? ordered_json() : ordered_json(value);
  };
  add("gpu", usage.gpu);
  add("gpu_percent", usage.gpu_percent);
  add("gpu_memory_bytes", usage.gpu_memory_bytes);
  add("gpu_memory_total_bytes", usage.gpu_memory_total_bytes);
  add("gpu_celsius", usage.gpu_celsius);
  add("gpu_watts", usage.gpu_watts);
  return json;
}

std::optional<wire::RankUsage> usage_of(const nlohmann::json& json, Rank rank) {
  if (json.is_null()) return std::nullopt;
  const auto number = [&json]<class Number>(const char* name, Number missing) {
    const nlohmann::json& value = json.at(name);
    return value.is_null() ? missing : whole_number<Number>(value);
  };
  return wire::RankUsage{.rank = rank,
                         .cpu_ns = static_cast<std::int64_t>(json.at("cpu_seconds").get<double>() * 1e9),
                         .age_ns = static_cast<std::int64_t>(json.at("age_seconds").get<double>() * 1e9),
                         .memory_bytes = number("memory_bytes", std::int64_t{0}),
                         .gpu = number("gpu", std::int32_t{-1}),
                         .gpu_percent = number("gpu_percent", std::int32_t{-1}),
                         .gpu_memory_bytes = number("gpu_memory_bytes", std::int64_t{-1}),
                         .gpu_memory_total_bytes = number("gpu_memory_total_bytes", std::int64_t{-1}),
                         .gpu_celsius = number("gpu_celsius", std::int32_t{-1}),
                         .gpu_watts = number("gpu_watts", std::int32_t{-1})};
}

RankStatus rank_of(const nlohmann::json& json) {
  return {.rank = Rank(whole_number<std::int32_t>(json.at("rank"))),
          .node = NodeId(whole_number<std::int32_t>(json.at("node"))),
          .pid = whole_number<std::int32_t>(json.at("pid")),
          .step = whole_or_nothing(json.at("step")),
          .resumed_step = whole_or_nothing(json.at("resumed_step")),
          .steps_per_second = number_or_nothing(json.at("steps_per_second")),
          .loss = loss_of(json.at("loss")),
          .samples_per_second = number_or_nothing(json.at("samples_per_second")),
          .last_sign_seconds = number_or_nothing(json.at("last_sign_seconds")),
          .section = json.at("section"),
          .state = json.at("state"),
          .usage = usage_of(json.at("usage"), Rank(whole_number<std::int32_t>(json.at("rank"))))};
}

std::string text_of(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : "-";
}

std::string ago(const std::optional<double>& seconds) {
  if (!seconds) return "-";
  return (*seconds < 10 ? fmt::format("{:.1f}s", *seconds) : duration_text(*seconds)) + " ago";
}

Row row_of(const RankStatus& rank, const std::string& node) {
  return {fmt::format("{}", rank.rank),
          node,
          rank.pid == 0 ? "-" : std::to_string(rank.pid),
          text_of(rank.step),
          rank.steps_per_second ? fmt::format("{:.2f}", *rank.steps_per_second) : "-",
          ago(rank.last_sign_seconds),
          rank.section.empty() ? "-" : rank.section,
          rank.state};
}

std::string ranks_text(const JobStatus& status, std::size_t columns) {
  constexpr std::size_t kLeast = 12;
  std::vector<Row> rows;
  for (const RankStatus& rank : status.ranks) rows.push_back(row_of(rank, status.names.of(rank.node)));
  return table_text({{"RANK", true},
                     {"NODE", false, Narrow::kCut, kLeast},
                     {"PID", true, Narrow::kLeftOut},
                     {"STEP", true},
                     {"STEPS/S", true},
                     {"LAST SIGN", true},
                     {"SECTION", false, Narrow::kCut, kLeast},
                     {"STATE", false, Narrow::kWrap, kLeast}},
                    std::move(rows), columns);
}

std::string rank_state(const RankTable::Entry& known, TimePoint now) {
  if (!known.end.empty()) return known.end;
  if (known.said.empty()) return "running";
  const Duration ago = now - known.said_at;
  if (!known.stalls || ago < std::chrono::seconds(1)) return known.said;
  return fmt::format("{}, {:.0f} s ago", known.said, in_seconds(ago));  // the agent reports a stall once
}

}  // namespace

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kGathering: return "waiting for agents";
    case Phase::kBeginning: return "beginning an attempt";
    case Phase::kPreparing: return "preparing";
    case Phase::kRunning: return "running";
    case Phase::kDumping: return "collecting stacks";
    case Phase::kPreempting: return "saving before leaving";
    case Phase::kStopping: return "stopping";
    case Phase::kLeaving: return "leaving";
    case Phase::kDone: return "done";
  }
  return "";
}

std::vector<RankStatus> statuses_of(const RankTable& table, const Steps& steps,
                                    const std::vector<NodePlan>& members, TimePoint now) {
  std::vector<RankStatus> ranks;
  for (const NodePlan& node : members) {
    for (std::int32_t local = 0; local < node.worker_count; ++local) {
      RankStatus status{
          .rank = Rank(node.first_rank.value() + local), .node = node.node, .state = "not started"};
      if (const RankTable::Entry* known = table.find(status.rank)) {
        status.pid = known->pid;
        status.step = steps.of(status.rank);
        status.resumed_step = known->resumed_step;
        status.steps_per_second = known->steps_per_second();
        status.loss = known->loss;
        if (status.steps_per_second && known->samples > 0)
          status.samples_per_second = *status.steps_per_second * static_cast<double>(known->samples);
        if (known->last_report) status.last_sign_seconds = in_seconds(now - *known->last_report);
        status.section = known->section;
        status.state = rank_state(*known, now);
      }
      ranks.push_back(std::move(status));
    }
  }
  return ranks;
}

std::string status_as_line(const JobStatus& status) {
  ordered_json ranks = ordered_json::array();
  for (const RankStatus& rank : status.ranks) {
    ranks.push_back({{"rank", rank.rank.value()},
                     {"node", rank.node.value()},
                     {"pid", rank.pid},
                     {"state", rank.state},
                     {"step", or_null(rank.step)},
                     {"steps_per_second", or_null(rank.steps_per_second)},
                     {"loss", loss_json(rank.loss)},
                     {"samples_per_second", or_null(rank.samples_per_second)},
                     {"last_sign_seconds", or_null(rank.last_sign_seconds)},
                     {"section", rank.section},
                     {"resumed_step", or_null(rank.resumed_step)},
                     {"usage", rank.usage ? usage_json(*rank.usage) : ordered_json()}});
  }
  ordered_json events = ordered_json::array();
  for (const ToldEvent& event : status.events)
    events.push_back({{"seconds_ago", event.seconds_ago}, {"text", event.text}});
  const ordered_json json = {{"job_id", status.job_id},
                             {"state", "running"},
                             {"phase", status.phase},
                             {"waiting_for", status.waiting_for},
                             {"attempt", status.attempt},
                             {"restarts", status.restart_count},
                             {"max_restarts", status.max_restarts},
                             {"elapsed_seconds", status.elapsed_seconds},
                             {"committed_step", or_null(status.committed_step)},
                             {"nodes", nodes_json(status.nodes, status.names)},
                             {"ranks", std::move(ranks)},
                             {"events", std::move(events)}};
  // Workers' texts may not be UTF-8.
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Expected<JobStatus> parse_status(std::string_view line) {
  try {
    const nlohmann::json json = parse_shallow_json(line, Fractions::kTaken);
    JobStatus status{.job_id = json.at("job_id"),
                     .phase = json.at("phase"),
                     .waiting_for = json.at("waiting_for"),
                     .attempt = whole_number<std::uint64_t>(json.at("attempt")),
                     .restart_count = whole_number<std::int32_t>(json.at("restarts")),
                     .max_restarts = whole_number<std::int32_t>(json.at("max_restarts")),
                     .elapsed_seconds = json.at("elapsed_seconds").get<double>(),
                     .committed_step = whole_or_nothing(json.at("committed_step"))};
    status.nodes = nodes_of(json.at("nodes"));
    status.names = names_of(json.at("nodes"));
    for (const nlohmann::json& rank : json.at("ranks")) status.ranks.push_back(rank_of(rank));
    for (const nlohmann::json& event : json.at("events"))
      status.events.push_back({event.at("seconds_ago").get<double>(), event.at("text")});
    return status;
  } catch (const nlohmann::json::exception& error) {
    return failure(ErrorCode::kCorrupt, "the launcher's answer cannot be read: {}", error.what());
  }
}

std::string status_as_text(const JobStatus& status, std::size_t columns) {
  constexpr std::size_t kLeast = 20;
  const std::vector<Column> told = {{"", true}, {"", false, Narrow::kWrap, kLeast}};
  std::string text = fmt::format("{}  {} for {}: {} on {}\n", status.job_id, status.phase,
                                 duration_text(status.elapsed_seconds), count_of(status.ranks.size(), "rank"),
                                 count_of(status.nodes.size(), "node"));
  if (!status.waiting_for.empty()) text += table_text(told, {{"", status.waiting_for}}, columns);
  text += fmt::format("  attempt      {}, ", status.attempt);
  text += status.restart_count <= status.max_restarts
              ? fmt::format("{} of {} restarts used\n", status.restart_count, status.max_restarts)
              : fmt::format("{} restarts, not all within the window\n", status.restart_count);
  if (status.committed_step)
    text += fmt::format("  checkpoint   committed up to step {}\n", *status.committed_step);
  text += "\n" + ranks_text(status, columns);
  if (status.events.empty()) return text;
  std::vector<Row> events;
  for (const ToldEvent& event : status.events)
    events.push_back({fmt::format("  {} ago", duration_text(event.seconds_ago)), event.text});
  return text + "\nlast events\n" + table_text(told, std::move(events), columns);
}

}  // namespace muster::launcher
