// The two kinds of search that use a model: TPE and BOHB.
//
// tpe_point() and bohb_point() return a point, or nullopt. If the result is nullopt, search.cc takes a random
// point. search.cc also uses random_point(), allowed_point() and Draws. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/core/sweep/search/random.h"
#include "launcher/core/sweep/search/search.h"

namespace muster::launcher::sweep {

// The purposes that a sweep's seed serves. Each of them has its own stream of random numbers (Random), so
// none disturbs another.
enum class Draws : std::uint64_t { kRandom = 1, kModel = 2, kPerturbed = 3 };

// Calls `draw` until a point satisfies the constraints, and returns that point. Returns nullopt if 10,000
// points in a row do not satisfy them.
std::optional<Point> allowed_point(const Space& space, const std::function<Point()>& draw);
Point random_point(const Space& space, Random& random);

// The multivariate Tree-structured Parzen Estimator (Bergstra et al. 2011; Watanabe, arXiv 2304.11127), with
// the settings of Optuna 5.0. Parameters that exist under the same condition share a model. Returns nullopt
// if there is no model yet, or if none of its points satisfies the constraints. In each case, `reason` is set
// to a text that explains the result.
std::optional<Point> tpe_point(const SearchSettings& settings, const Space& space, const History& history,
                               std::string& reason);
// Returns a point from the model of BOHB (Falkner, Klein, Hutter, arXiv 1807.01774), with the settings of the
// authors' program HpBandSter. Returns nullopt in the same cases as tpe_point(). `reason` is set whether or
// not there is a point.
std::optional<Point> bohb_point(const SearchSettings& settings, const Space& space, const History& history,
                                std::string& reason);

}  // namespace muster::launcher::sweep
