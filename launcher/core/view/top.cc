#include "launcher/core/view/top.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "common/wire/json.h"
#include "launcher/core/text/duration.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

// In percent of one processor.
std::optional<double> cpu_percent(const RankStatus& rank, const std::optional<JobStatus>& before) {
  if (!rank.usage) return std::nullopt;
  std::int64_t cpu_ns = rank.usage->cpu_ns;
  std::int64_t age_ns = rank.usage->age_ns;
  if (before) {
    const auto earlier = std::ranges::find(before->ranks, rank.rank, &RankStatus::rank);
    const bool same = earlier != before->ranks.end() && earlier->pid == rank.pid && earlier->usage;
    if (same && earlier->usage->age_ns < age_ns) {
      cpu_ns -= earlier->usage->cpu_ns;
      age_ns -= earlier->usage->age_ns;
    }
  }
  if (age_ns <= 0) return std::nullopt;
  return std::max(100.0 * static_cast<double>(cpu_ns) / static_cast<double>(age_ns), 0.0);
}

template <class Value>
std::string shown(const std::optional<Value>& value, fmt::format_string<const Value&> format) {
  return value ? fmt::format(format, *value) : "-";
}

std::string memory_text(const RankStatus& rank) {
  return rank.usage ? size_text(static_cast<std::uint64_t>(rank.usage->memory_bytes)) : "-";
}

std::string gpu_text(const std::optional<wire::RankUsage>& usage) {
  if (!usage || usage->gpu < 0) return "-";
  const auto number = [](std::int32_t value, std::string_view unit) {
    return value < 0 ? std::string() : fmt::format(" {}{}", value, unit);
  };
  std::string text = fmt::format("{}:", usage->gpu) + number(usage->gpu_percent, "%");
  if (usage->gpu_memory_bytes >= 0)
    text += fmt::format(" {:.1f}/{:.0f} GiB", static_cast<double>(usage->gpu_memory_bytes) / (1 << 30),
                        static_cast<double>(usage->gpu_memory_total_bytes) / (1 << 30));
  return text + number(usage->gpu_celsius, " C") + number(usage->gpu_watts, " W");
}

std::string line_of(const std::array<std::string, 9>& cells, std::size_t node_width) {
  return fmt::format("{:>5}  {:<{}}  {:>9}  {:>10}  {:>10}  {:>6}  {:>9}  {:<30}  {}", cells[0], cells[1],
                     node_width, cells[2], cells[3], cells[4], cells[5], cells[6], cells[7], cells[8]);
}

// Never cuts within a multi-byte character.
std::string cut(const std::string& line, const Screen& screen) {
  return screen.columns == 0 ? line : std::string(beginning_of(line, screen.columns));
}

}  // namespace

bool knows_usage(const JobStatus& status) {
  return std::ranges::all_of(status.ranks, [](const RankStatus& rank) {
    return rank.usage || rank.pid == 0 || rank.state != "running";
  });
}

std::string top_as_text(const JobStatus& status, const std::optional<JobStatus>& before,
                        const Screen& screen) {
  std::size_t node_width = 8;
  for (const NodePlan& node : status.nodes)
    node_width = std::max(node_width, status.names.of(node.node).size());
  std::vector<std::string> lines;
  double samples = 0;
  for (const RankStatus& rank : status.ranks) samples += rank.samples_per_second.value_or(0);
  lines.push_back(fmt::format("{}  {} for {}, attempt {}: {} on {}{}", status.job_id, status.phase,
                              duration_text(status.elapsed_seconds), status.attempt,
                              count_of(status.ranks.size(), "rank"), count_of(status.nodes.size(), "node"),
                              samples > 0 ? fmt::format(", {:.0f} samples/s", samples) : std::string()));
  lines.push_back(
      line_of({"RANK", "NODE", "STEP", "SAMPLES/S", "LOSS", "CPU", "MEMORY", "GPU", "STATE"}, node_width));
  const std::size_t head = lines.size();
  for (const RankStatus& rank : status.ranks)
    lines.push_back(line_of(
        {fmt::format("{}", rank.rank), status.names.of(rank.node), shown(rank.step, "{}"),
         shown(rank.samples_per_second, "{:.1f}"), shown(rank.loss, "{:.5g}"),
         shown(cpu_percent(rank, before), "{:.0f}%"), memory_text(rank), gpu_text(rank.usage), rank.state},
        node_width));
  if (screen.rows > head && lines.size() > screen.rows) {
    const std::size_t hidden = lines.size() - screen.rows + 1;
    lines.resize(screen.rows - 1);
    lines.push_back(fmt::format("... and {}", count_of(hidden, "more rank")));
  }
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string line = cut(lines[i], screen);
    text += screen.bold && i + 1 == head ? fmt::format("\033[1m{}\033[0m\n", line) : line + "\n";
  }
  return text;
}

std::string top_as_json(const JobStatus& status, const std::optional<JobStatus>& before) {
  auto json = nlohmann::ordered_json::parse(status_as_line(status));
  for (std::size_t i = 0; i < status.ranks.size(); ++i)
    json["ranks"][i]["cpu_percent"] = or_null(cpu_percent(status.ranks[i], before));
  return json.dump(2) + "\n";
}

}  // namespace muster::launcher
