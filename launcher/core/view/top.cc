#include "launcher/core/view/top.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "common/wire/json.h"
#include "launcher/core/text/duration.h"
#include "launcher/core/text/table.h"
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

// The columns have the widths that they usually need. So they seldom move when the numbers change.
const std::vector<Column>& titles() {
  static const std::vector<Column> kTitles = {
      {.title = "RANK", .right = true},
      {.title = "NODE", .narrow = Narrow::kCut, .least = 12, .usual = 5},
      {.title = "STEP", .right = true, .usual = 7},
      {.title = "SAMPLES/S", .right = true, .narrow = Narrow::kLeftOut},
      {.title = "LOSS", .right = true, .usual = 8},
      {.title = "CPU", .right = true, .usual = 5},
      {.title = "MEMORY", .right = true, .usual = 8},
      {.title = "GPU", .narrow = Narrow::kCut, .least = 18},
      {.title = "STATE", .narrow = Narrow::kCut, .least = 7}};
  return kTitles;
}

}  // namespace

bool knows_usage(const JobStatus& status) {
  return std::ranges::all_of(status.ranks, [](const RankStatus& rank) {
    return rank.usage || rank.pid == 0 || rank.state != "running";
  });
}

std::string top_as_text(const JobStatus& status, const std::optional<JobStatus>& before,
                        const Screen& screen) {
  double samples = 0;
  for (const RankStatus& rank : status.ranks) samples += rank.samples_per_second.value_or(0);
  const std::string first =
      fmt::format("{}  {} for {}, attempt {}: {} on {}{}", status.job_id, status.phase,
                  duration_text(status.elapsed_seconds), status.attempt,
                  count_of(status.ranks.size(), "rank"), count_of(status.nodes.size(), "node"),
                  samples > 0 ? fmt::format(", {:.0f} samples/s", samples) : std::string());
  std::vector<Row> rows;
  for (const RankStatus& rank : status.ranks)
    rows.push_back({fmt::format("{}", rank.rank), status.names.of(rank.node), shown(rank.step, "{}"),
                    shown(rank.samples_per_second, "{:.1f}"), shown(rank.loss, "{:.5g}"),
                    shown(cpu_percent(rank, before), "{:.0f}%"), memory_text(rank), gpu_text(rank.usage),
                    rank.state});
  const std::string all =
      table_text({{}}, {{first}}, screen.columns) + table_text(titles(), std::move(rows), screen.columns);
  std::vector<std::string_view> lines = split(all, '\n');
  lines.pop_back();
  constexpr std::size_t kHead = 2;
  std::string text;
  const bool all_fit = screen.rows <= kHead || lines.size() <= screen.rows;
  const std::size_t shown_count = all_fit ? lines.size() : screen.rows - 1;
  for (std::size_t i = 0; i < shown_count; ++i)
    text += screen.bold && i + 1 == kHead ? fmt::format("\033[1m{}\033[0m\n", lines[i])
                                          : fmt::format("{}\n", lines[i]);
  if (!all_fit) text += fmt::format("... and {}\n", count_of(lines.size() - shown_count, "more rank"));
  return text;
}

std::string top_as_json(const JobStatus& status, const std::optional<JobStatus>& before) {
  auto json = nlohmann::ordered_json::parse(status_as_line(status));
  for (std::size_t i = 0; i < status.ranks.size(); ++i)
    json["ranks"][i]["cpu_percent"] = or_null(cpu_percent(status.ranks[i], before));
  return json.dump(2) + "\n";
}

}  // namespace muster::launcher
