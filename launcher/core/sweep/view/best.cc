#include "launcher/core/sweep/view/best.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "common/wire/metric_name.h"
#include "launcher/core/text/words.h"

namespace muster::launcher::sweep {

namespace {

struct Judged {
  std::int32_t trial = 0;
  std::vector<double> values;  // one for each objective
};

std::vector<Judged> judged_trials(const History& history, const std::vector<Objective>& objectives) {
  std::vector<Judged> all;
  for (const Trial& trial : history.trials()) {
    Judged judged{.trial = trial.number, .values = {}};
    for (const Objective& objective : objectives) {
      if (const auto value = judged_value(trial, objective.metric)) judged.values.push_back(*value);
    }
    if (judged.values.size() == objectives.size()) all.push_back(std::move(judged));
  }
  return all;
}

bool dominates(const std::vector<Objective>& objectives, const Judged& one, const Judged& other) {
  bool better = false;
  for (std::size_t i = 0; i < objectives.size(); ++i) {
    if (is_better(objectives[i].mode, other.values[i], one.values[i])) return false;
    better = better || is_better(objectives[i].mode, one.values[i], other.values[i]);
  }
  return better;
}

bool is_of_job(const Flag& flag, const Setting& setting) {
  // These flags are left out. `settings` already contains the lines of --config's file. --memory-tier and
  // --take-over make no sense without --checkpoint-dir.
  constexpr std::string_view kOthers[] = {"checkpoint-dir", "memory-tier", "take-over", "config",
                                          "dry-run",        "json",        "quiet"};
  const bool is_variable = std::isupper(static_cast<unsigned char>(setting.source.front())) != 0;
  return !is_variable && std::ranges::find(kOthers, flag.name) == std::end(kOthers);
}

// Returns the flag with its values, such as " --env A=1 --env B=2". Returns nothing for a switch that is off.
std::string flag_text(const Flag& flag, const Setting& setting) {
  if (flag.value.empty()) return setting.values.back() == "0" ? "" : fmt::format(" --{}", flag.name);
  std::string text;
  for (const std::string& value : setting.values) {
    if (!may_be_repeated(flag) && &value != &setting.values.back()) continue;
    const bool is_apart = !value.empty() && !value.starts_with('-');
    text += is_apart ? fmt::format(" --{} {}", flag.name, as_shell_word(value))
                     : " " + as_shell_word(fmt::format("--{}={}", flag.name, value));
  }
  return text;
}

}  // namespace

std::optional<double> judged_value(const Trial& trial, const std::string& metric) {
  if (trial.state == TrialState::kInfeasible || trial.state == TrialState::kFailed) return std::nullopt;
  const auto value = trial.newest(metric);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::vector<std::int32_t> best_trials(const History& history, const std::vector<Objective>& objectives) {
  if (objectives.empty()) return {};
  std::vector<Judged> all = judged_trials(history, objectives);
  if (objectives.size() > 1) {
    const std::vector<Judged> compared = all;
    std::erase_if(all, [&](const Judged& one) {
      return std::ranges::any_of(compared,
                                 [&](const Judged& other) { return dominates(objectives, other, one); });
    });
  }
  const Mode mode = objectives.front().mode;
  std::ranges::sort(all, [mode](const Judged& one, const Judged& other) {
    if (one.values.front() != other.values.front())
      return is_better(mode, one.values.front(), other.values.front());
    return one.trial < other.trial;
  });
  std::vector<std::int32_t> trials;
  for (const Judged& each : all) trials.push_back(each.trial);
  return trials;
}

std::string launch_command(const Settings& settings, const SweepOptions& options) {
  std::string text = "launch";
  // If these flags were missing, a list of hosts would decide how many nodes and workers there are.
  const bool hosts = settings.contains("hosts") || settings.contains("hostfile");
  if (hosts || options.nodes_per_trial > 1) text += fmt::format(" --nodes {}", options.nodes_per_trial);
  if (hosts || options.gpus_per_trial > 1) text += fmt::format(" --gpus-per-node {}", options.gpus_per_trial);
  for (const auto& [name, setting] : settings) {
    if (const Flag* flag = find_flag(name); flag != nullptr && is_of_job(*flag, setting))
      text += flag_text(*flag, setting);
  }
  return text;
}

std::string variables_as_flags(const std::vector<std::string>& program, const Space& space,
                               const Point& point, const TrialPlace& place) {
  const auto outside = parameters_outside(program, space);
  if (std::ranges::none_of(outside, [&](const std::string& name) { return point.contains(name); })) return "";
  std::string flags;
  for (const auto& [name, value] : variables_of(point, place)) {
    if (name != wire::kTrialVariable) flags += " --env " + as_shell_word(name + "=" + value);
  }
  return flags;
}

Expected<std::string> training_command(const std::vector<std::string>& program, const Space& space,
                                       const Point& point, const TrialPlace& place) {
  const auto words = program_of(program, space, point, place);
  if (!words) return std::unexpected(words.error());
  std::string line;
  for (const std::string& word : *words) line += (line.empty() ? "" : " ") + as_shell_word(word);
  return line;
}

}  // namespace muster::launcher::sweep
