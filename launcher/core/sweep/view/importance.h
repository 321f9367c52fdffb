// How important each parameter is: the share of the metric's variance over the space that it explains alone
// (fANOVA, forest.h). The rest belongs to parameters together.
//
// Learns from finished trials, as Optuna 5.0's FanovaImportanceEvaluator does, with as many trees. Unlike
// there, each parameter counts by its own distribution: of a logarithmic one all decades weigh the same.
// Pure.
#pragma once

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
// The most important parameter first. Has the parameters that all finished trials with a finite value have.
// An error: these trials are too few, or have the same value.
Expected<std::vector<Importance>> importances(const Space& space, const History& history,
                                              const std::string& metric);

std::string importances_as_table(const std::vector<Importance>& importances, std::size_t width);

}  // namespace muster::launcher::sweep
