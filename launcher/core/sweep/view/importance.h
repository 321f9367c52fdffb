// How important each parameter is: the share of the metric's variance over the space that the parameter
// explains alone (fANOVA, forest.h). The rest belongs to combinations of parameters.
//
// Learns from finished trials, as Optuna 5.0's FanovaImportanceEvaluator does, with as many trees; with
// rungs, from all trials at one of them. Unlike in Optuna, each parameter is weighted by its own
// distribution: all decades of a logarithmic parameter weigh the same. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "launcher/core/sweep/history/history.h"
#include "launcher/core/sweep/search/search.h"
#include "launcher/core/sweep/space/space.h"

namespace muster::launcher::sweep {

struct Importance {
  std::string parameter;
  double share = 0;      // in [0, 1]; the shares of all parameters together are at most 1
  double deviation = 0;  // standard deviation over the trees
};
struct Importances {
  // The most important one first. Has the parameters that all compared trials have.
  std::vector<Importance> parameters;
  std::size_t trial_count = 0;
  std::optional<std::int64_t> step;  // at which they were compared; nullopt: finished ones, by newest values
};
// `rungs`: ascending. With several rungs, compares the trials at the highest rung that at least half of the
// first rung's trials have reached: at higher rungs only good trials are left. Values that are not finite do
// not count. Returns an error if the trials are too few, or have the same value.
Expected<Importances> importances(const Space& space, const History& history, const std::string& metric,
                                  std::span<const std::int64_t> rungs = {});

// A line that says what was compared, and a table.
std::string importances_as_text(const Importances& importances, const std::string& metric, std::size_t width);

}  // namespace muster::launcher::sweep
