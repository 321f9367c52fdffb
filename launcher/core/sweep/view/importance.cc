#include "launcher/core/sweep/view/importance.h"

#include <algorithm>
#include <cmath>

#include "launcher/core/sweep/search/axis.h"
#include "launcher/core/sweep/view/forest.h"
#include "launcher/core/text/table.h"

namespace muster::launcher::sweep {

namespace {

struct Example {
  const Point& point;
  double value;
};

std::int64_t compared_rung(const History& history, const std::string& metric,
                           std::span<const std::int64_t> rungs) {
  const auto reached_by = [&](std::int64_t rung) {
    return std::ranges::count_if(
        history.trials(), [&](const Trial& trial) { return trial.value_at(metric, rung).has_value(); });
  };
  std::int64_t found = rungs.front();
  for (const std::int64_t rung : rungs) {
    if (2 * reached_by(rung) >= reached_by(rungs.front())) found = rung;
  }
  return found;
}

// Returns the values that the trials have at `step`. If no step is given, returns the newest values of the
// finished trials.
std::vector<Example> examples_in(const History& history, const std::string& metric,
                                 std::optional<std::int64_t> step) {
  std::vector<Example> examples;
  for (const Trial& trial : history.trials()) {
    if (!step && trial.state != TrialState::kFinished) continue;
    const auto value = step ? trial.value_at(metric, *step) : trial.newest(metric);
    if (value && std::isfinite(*value)) examples.push_back({trial.point, *value});
  }
  return examples;
}

std::vector<Axis> shared_axes(const Space& space, const std::vector<Example>& examples) {
  std::vector<Axis> axes;
  for (const Parameter& parameter : space.parameters) {
    const Axis axis(parameter);
    const bool everywhere = std::ranges::all_of(
        examples, [&](const Example& each) { return axis.coordinate_in(each.point).has_value(); });
    if (everywhere) axes.push_back(axis);
  }
  return axes;
}

ForestData forest_data(const std::vector<Axis>& axes, const std::vector<Example>& examples) {
  ForestData data;
  for (const Axis& axis : axes) data.features.push_back(axis.is_choice() ? axis.value_count() : 0);
  for (const Example& example : examples) {
    std::vector<double>& row = data.rows.emplace_back();
    for (const Axis& axis : axes) row.push_back(*axis.coordinate_in(example.point));
    data.targets.push_back(example.value);
  }
  return data;
}

}  // namespace

Expected<Importances> importances(const Space& space, const History& history, const std::string& metric,
                                  std::span<const std::int64_t> rungs) {
  std::optional<std::int64_t> step;
  if (rungs.size() > 1) step = compared_rung(history, metric, rungs);
  const std::vector<Example> examples = examples_in(history, metric, step);
  const std::vector<Axis> axes = shared_axes(space, examples);
  const auto effects = main_effects(forest_data(axes, examples), {});
  if (!effects)
    return failure(ErrorCode::kInvalidArgument,
                   "importance needs two {}trials with different values of {}{}; {} {} a value",
                   step ? "" : "finished ", metric, step ? fmt::format(" at step {}", *step) : "",
                   examples.size(), examples.size() == 1 ? "has" : "have");
  Importances all{.parameters = {}, .trial_count = examples.size(), .step = step};
  for (std::size_t i = 0; i < axes.size(); ++i)
    all.parameters.push_back({axes[i].parameter().name, (*effects)[i].share, (*effects)[i].deviation});
  std::ranges::sort(all.parameters, [](const Importance& one, const Importance& other) {
    return one.share != other.share ? one.share > other.share : one.parameter < other.parameter;
  });
  return all;
}

std::string importances_as_text(const Importances& importances, const std::string& metric,
                                std::size_t width) {
  constexpr double kBarLength = 40;
  std::vector<Row> rows;
  for (const Importance& each : importances.parameters)
    rows.push_back({each.parameter, fmt::format("{:.1f} %", 100 * each.share),
                    fmt::format("{:.1f} %", 100 * each.deviation),
                    std::string(static_cast<std::size_t>(std::lround(kBarLength * each.share)), '#')});
  const std::string compared =
      importances.step
          ? fmt::format("{} at step {}, of {} trials", metric, *importances.step, importances.trial_count)
          : fmt::format("{} of {} finished trials", metric, importances.trial_count);
  return compared + "\n" +
         table_text({{"PARAMETER"},
                     {"IMPORTANCE", true},
                     {"SPREAD", true, Narrow::kLeftOut},
                     {"", false, Narrow::kCut}},
                    std::move(rows), width);
}

}  // namespace muster::launcher::sweep
