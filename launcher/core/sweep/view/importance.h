// Computes how important each parameter is. The metric has a variance over the space. The importance is the
// share of this variance that the parameter explains alone (fANOVA, forest.h). The rest belongs to
// combinations of parameters.
//
// A forest of trees learns the metric from finished trials. It has as many trees as in Optuna 5.0's
// FanovaImportanceEvaluator. If the sweep has rungs, the forest learns from all trials at one rung. Unlike in
// Optuna, each parameter is weighted by its own distribution. So all decades of a logarithmic parameter weigh
// the same. Pure.
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
  // The parameters that all compared trials have. The most important one is the first.
  std::vector<Importance> parameters;
  std::size_t trial_count = 0;
  std::optional<std::int64_t> step;  // at which they were compared; nullopt: finished ones, by newest values
};
// Computes the importance of each parameter. `rungs` must be ascending. If there are several rungs, the
// function compares the trials at the highest rung that at least half of the first rung's trials have
// reached. At higher rungs only good trials are left. Values that are not finite do not count. Returns an
// error if there are too few trials, or if all have the same value.
Expected<Importances> importances(const Space& space, const History& history, const std::string& metric,
                                  std::span<const std::int64_t> rungs = {});

// Returns a line that says what was compared, and a table.
std::string importances_as_text(const Importances& importances, const std::string& metric, std::size_t width);

}  // namespace muster::launcher::sweep
