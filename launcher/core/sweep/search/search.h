// Chooses the next point of a sweep. The ways to choose are grid, random, Sobol, TPE and BOHB.
//
// The result of suggest() depends only on its arguments. So the same history gives the same point. Its random
// numbers come from the seed and the number of trials so far. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/core/sweep/history/history.h"
#include "launcher/core/sweep/space/space.h"

namespace muster::launcher::sweep {

enum class Mode { kMin, kMax };
struct Objective {
  std::string metric;
  Mode mode = Mode::kMin;
};
// Returns whether `value` is better than `other`. NaN is worse than every other value.
bool is_better(Mode mode, double value, double other);

struct SearchSettings {
  enum class Kind { kGrid, kRandom, kSobol, kTpe, kBohb };
  Kind kind = Kind::kRandom;
  std::vector<Objective> objectives;  // the first one guides the search
  std::vector<std::int64_t>
      rungs{};  // the steps at which trials are compared, ascending: BOHB has a model for each
  std::uint64_t seed = 0;
};

// If a parameter does not fit the search, returns an error that names it. An example is a continuous range in
// a grid.
Status check_search(const SearchSettings& settings, const Space& space);
// Returns the number of different points. Returns nullopt if it is not finite, or if there are too many
// points to count; see grid_size().
std::optional<std::uint64_t> point_count(const Space& space);

// Checks whether suggest() would find a point that the constraints allow. If not, returns an error that names
// the constraints.
Status check_has_point(const SearchSettings& settings, const Space& space);

struct Suggestion {
  Point point;
  std::string reason;  // "TPE: 24 candidates from 12 good and 100 other trials"
};
// Returns the next point of the search. Returns nullopt if the grid has no more points, or if 10,000 random
// points in a row broke a constraint.
std::optional<Suggestion> suggest(const SearchSettings& settings, const Space& space, const History& history);

// Returns a changed copy of `point`: the step "explore" of PBT (Jaderberg et al. 2017, arXiv 1711.09846).
// Draws all parameters anew with probability 0.25. Otherwise multiplies each number by 0.8 or 1.2, within its
// range, and moves each choice to one of its neighbours. `nth` is the number of this exploit in the sweep.
Point perturbed(const Space& space, const Point& point, std::uint64_t seed, std::uint64_t nth);

}  // namespace muster::launcher::sweep
