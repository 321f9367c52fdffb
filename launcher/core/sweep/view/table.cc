#include "launcher/core/sweep/view/table.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "launcher/core/text/duration.h"
#include "launcher/core/text/table.h"
#include "launcher/core/text/words.h"

namespace muster::launcher::sweep {

namespace {

using nlohmann::ordered_json;

std::string short_number(double number) {
  return fmt::format("{:.6g}", number);
}

std::string short_text(const Value& value) {
  const auto* real = std::get_if<double>(&value);
  return real == nullptr ? text_of(value) : short_number(*real);
}

std::string point_text(const Point& point) {
  std::string text;
  for (const auto& [name, value] : point)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, short_text(value));
  return text;
}

// Returns the title of a metric's column, such as "VAL_LOSS". The titles of all columns are in capitals.
std::string title_of(std::string metric) {
  std::ranges::transform(metric, metric.begin(), [](char letter) {
    return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  });
  return metric;
}

bool has_begun(const Trial& trial) {
  return trial.run_count > 0;
}

std::string time_text(const Trial& trial, double now) {
  if (!has_begun(trial)) return "-";
  const bool runs = trial.state == TrialState::kRunning;
  return duration_text(trial.busy + (runs ? std::max(0.0, now - trial.run_began_at) : 0));
}

std::string number_or_dash(std::optional<double> number) {
  return number ? short_number(*number) : "-";
}

std::string step_text(const Trial& trial) {
  return trial.newest_step() < 0 ? "-" : std::to_string(trial.newest_step());
}

Row row_of(const Trial& trial, const std::vector<Objective>& objectives, double now) {
  Row row = {std::to_string(trial.number), std::string(name_of(trial.state)), point_text(trial.point)};
  for (const Objective& objective : objectives) row.push_back(number_or_dash(trial.newest(objective.metric)));
  row.push_back(step_text(trial));
  row.push_back(time_text(trial, now));
  row.push_back(first_line(trial.text));
  return row;
}

ordered_json number_json(double number) {
  return std::isfinite(number) ? ordered_json(number) : ordered_json(nullptr);
}

ordered_json basics_json(const Trial& trial) {
  ordered_json json{
      {"trial", trial.number},
      {"state", name_of(trial.state)},
      {"bracket", trial.bracket},
      {"parameters", point_as_json(trial.point)},
      {"runs", trial.run_count},
      {"failures", trial.failure_count},
      {"step", trial.newest_step() < 0 ? ordered_json(nullptr) : ordered_json(trial.newest_step())},
      {"metrics", ordered_json::object()},
      {"began_at", has_begun(trial) ? ordered_json(trial.began_at) : ordered_json(nullptr)},
      {"ended_at", trial.is_over() ? ordered_json(trial.ended_at) : ordered_json(nullptr)},
      {"text", trial.text}};
  for (const auto& [metric, measured] : trial.measured)
    json["metrics"][metric] = number_json(measured.back().value);
  return json;
}

// Returns a line such as "val_loss 0.12 at step 81, best 0.11 at step 27". If the metric is not an objective,
// the best value is left out.
std::string metric_line(const std::string& metric, const std::vector<Measurement>& measured,
                        const std::vector<Objective>& objectives) {
  const Measurement& newest = measured.back();
  std::string line = fmt::format("  {} {} at step {}", metric, short_number(newest.value), newest.step);
  const auto objective = std::ranges::find(objectives, metric, &Objective::metric);
  if (objective == objectives.end()) return line + "\n";
  const Measurement& best = *std::ranges::min_element(measured, [&](const auto& one, const auto& other) {
    return is_better(objective->mode, one.value, other.value);
  });
  if (!is_better(objective->mode, best.value, newest.value)) return line + ", its best value\n";
  return line + fmt::format(", best {} at step {}\n", short_number(best.value), best.step);
}

std::string course_as_table(const Trial& trial, std::size_t width) {
  std::vector<Column> columns = {{"STEP", true}};
  std::set<std::int64_t> steps;
  for (const auto& [metric, measured] : trial.measured) {
    columns.push_back({title_of(metric), true});
    for (const Measurement& each : measured) steps.insert(each.step);
  }
  std::vector<Row> rows;
  for (const std::int64_t step : steps) {
    Row row = {std::to_string(step)};
    for (const auto& [metric, measured] : trial.measured) {
      const auto found = std::ranges::find(measured, step, &Measurement::step);
      row.push_back(found == measured.end() ? "" : short_number(found->value));
    }
    rows.push_back(std::move(row));
  }
  return rows.empty() ? "" : "\n" + table_text(columns, std::move(rows), width);
}

}  // namespace

std::string counts_of_states(const std::vector<Trial>& trials) {
  std::map<TrialState, std::size_t> counts;
  for (const Trial& trial : trials) ++counts[trial.state];
  std::string text;
  for (const auto& [state, count] : counts) text += fmt::format(", {} {}", count, name_of(state));
  return text;
}

std::string trials_as_table(const std::vector<Trial>& trials, const std::vector<Objective>& objectives,
                            const TableOptions& options) {
  constexpr std::size_t kLeast = 16;
  std::vector<Column> columns = {{"TRIAL", true}, {"STATE"}, {"PARAMETERS", false, Narrow::kCut, kLeast}};
  for (const Objective& objective : objectives) columns.push_back({title_of(objective.metric), true});
  columns.push_back({"STEP", true});
  columns.push_back({"TIME", true, Narrow::kLeftOut});
  columns.push_back({"WHY", false, Narrow::kCut, kLeast});
  std::vector<Row> rows;
  for (const Trial& trial : trials) rows.push_back(row_of(trial, objectives, options.now));
  return table_text(columns, std::move(rows), options.width);
}

ordered_json trials_as_json(const std::vector<Trial>& trials) {
  ordered_json array = ordered_json::array();
  for (const Trial& trial : trials) array.push_back(basics_json(trial));
  return array;
}

std::string values_as_text(const Trial& trial) {
  std::string text;
  for (const auto& [name, value] : trial.point) text += fmt::format("  {} = {}\n", name, text_of(value));
  return text;
}

std::string trial_as_text(const Trial& trial, const std::vector<Objective>& objectives,
                          const TableOptions& options) {
  std::string text =
      fmt::format("trial {}: {}, {}", trial.number, name_of(trial.state), count_of(trial.run_count, "run"));
  if (trial.failure_count > 0) text += fmt::format(", {} failed", trial.failure_count);
  if (has_begun(trial)) text += ", " + time_text(trial, options.now);
  text += "\n";
  if (!trial.text.empty()) text += "  why: " + first_line(trial.text) + "\n";
  text += values_as_text(trial);
  for (const auto& [metric, measured] : trial.measured) text += metric_line(metric, measured, objectives);
  for (const Exploited& exploit : trial.exploits)
    text += fmt::format("  continued from the newest checkpoint of trial {}, which had got to step {}: {}\n",
                        exploit.from, exploit.step, point_text(exploit.point));
  return text + course_as_table(trial, options.width);
}

ordered_json trial_as_json(const Trial& trial) {
  ordered_json json = basics_json(trial);
  json["measured"] = ordered_json::object();
  for (const auto& [metric, measured] : trial.measured) {
    ordered_json& values = json["measured"][metric] = ordered_json::array();
    for (const Measurement& each : measured)
      values.push_back({{"step", each.step}, {"value", number_json(each.value)}});
  }
  json["exploits"] = ordered_json::array();
  for (const Exploited& each : trial.exploits)
    json["exploits"].push_back(
        {{"from", each.from}, {"step", each.step}, {"parameters", point_as_json(each.point)}});
  return json;
}

}  // namespace muster::launcher::sweep
