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

std::vector<Example> examples_in(const History& history, const std::string& metric) {
  std::vector<Example> examples;
  for (const Trial& trial : history.trials()) {
    const auto value = trial.newest(metric);
    if (trial.state == TrialState::kFinished && value && std::isfinite(*value))
      examples.push_back({trial.point, *value});
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

Expected<std::vector<Importance>> importances(const Space& space, const History& history,
                                              const std::string& metric) {
  const std::vector<Example> examples = examples_in(history, metric);
  const std::vector<Axis> axes = shared_axes(space, examples);
  const auto effects = main_effects(forest_data(axes, examples), {});
  if (!effects)
    return failure(ErrorCode::kInvalidArgument,
                   "importance needs two finished trials with different values of {}; {} {} a value", metric,
                   examples.size(), examples.size() == 1 ? "has" : "have");
  std::vector<Importance> all;
  for (std::size_t i = 0; i < axes.size(); ++i)
    all.push_back({axes[i].parameter().name, (*effects)[i].share, (*effects)[i].deviation});
  std::ranges::sort(all, [](const Importance& one, const Importance& other) {
    return one.share != other.share ? one.share > other.share : one.parameter < other.parameter;
  });
  return all;
}

std::string importances_as_table(const std::vector<Importance>& importances, std::size_t width) {
  constexpr double kBarLength = 40;
  std::vector<Row> rows;
  for (const Importance& each : importances)
    rows.push_back({each.parameter, fmt::format("{:.1f} %", 100 * each.share),
                    fmt::format("{:.1f} %", 100 * each.deviation),
                    std::string(static_cast<std::size_t>(std::lround(kBarLength * each.share)), '#')});
  return table_text(
      {{"PARAMETER"}, {"IMPORTANCE", true}, {"SPREAD", true, Narrow::kLeftOut}, {"", false, Narrow::kCut}},
      std::move(rows), width);
}

}  // namespace muster::launcher::sweep
