// The searches with a model: TPE and BOHB.
//
// Each gives a point, or leaves the choice to a random one. They share with search.cc how a point is drawn
// and the numbers that keep the uses of a sweep's seed apart. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/core/sweep/search/random.h"
#include "launcher/core/sweep/search/search.h"

namespace muster::launcher::sweep {

// The same number for the same use of the sweep's seed: see Random.
enum class Draws : std::uint64_t { kRandom = 1, kModel = 2, kPerturbed = 3 };

// The first point of `draw` that keeps the constraints; nullopt: 10,000 in a row do not.
std::optional<Point> allowed_point(const Space& space, const std::function<Point()>& draw);
Point random_point(const Space& space, Random& random);

// The multivariate Tree-structured Parzen Estimator (Bergstra et al. 2011; Watanabe, arXiv 2304.11127), with
// the settings of Optuna 5.0. The parameters that exist under the same condition have a model of their own.
// nullopt: no model yet, or none of its points keeps the constraints; `reason` says which then. It always
// explains the point.
std::optional<Point> tpe_point(const SearchSettings& settings, const Space& space, const History& history,
                               std::string& reason);
// The model of BOHB (Falkner, Klein, Hutter, arXiv 1807.01774), with the settings of its authors' HpBandSter.
// The same results.
std::optional<Point> bohb_point(const SearchSettings& settings, const Space& space, const History& history,
                                std::string& reason);

}  // namespace muster::launcher::sweep
