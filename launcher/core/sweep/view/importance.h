// How important each parameter is: the share of the metric's variance over the space that it explains alone
// (fANOVA, forest.h). The rest belongs to parameters together.
//
// Learns from finished trials, as Optuna 5.0's FanovaImportanceEvaluator does, with as many trees; with
// rungs, from all trials at one of them. Unlike there, each parameter counts by its own distribution: of a
// logarithmic one all decades weigh the same. Pure.
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
// `rungs`: ascending. With several rungs, compares the trials at the highest rung that at least half of those
// at the first rung have reached. Above it only good trials are left. Values that are not finite do not
// count. An error: the trials are too few, or have the same value.
Expected<Importances> importances(const Space& space, const History& history, const std::string& metric,
                                  std::span<const std::int64_t> rungs = {});

// A line that says what was compared, and a table.
std::string importances_as_text(const Importances& importances, const std::string& metric, std::size_t width);

}  // namespace muster::launcher::sweep
