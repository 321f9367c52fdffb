#include "launcher/core/sweep/view/best.h"

#include <algorithm>
#include <cmath>

#include "launcher/core/sweep/space/placeholders.h"
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

Expected<std::string> training_command(const std::vector<std::string>& command, const Space& space,
                                       const Point& point, const std::map<std::string, std::string>& more) {
  std::string line;
  for (const std::string& word : command) {
    const auto text = filled(word, space, point, more);
    if (!text) return text;
    line += (line.empty() ? "" : " ") + as_shell_word(*text);
  }
  return line;
}

}  // namespace muster::launcher::sweep
