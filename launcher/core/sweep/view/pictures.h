// Pictures of a sweep, as SVG: its points, and how its best value improved.
//
// Colours are safe for all kinds of colour vision, and every difference is also one of shape or place. Each
// trial shows its number, parameters and value under the mouse. Pure.
#pragma once

#include <string>

#include "launcher/core/sweep/history/history.h"
#include "launcher/core/sweep/search/search.h"
#include "launcher/core/sweep/space/space.h"

namespace muster::launcher::sweep {

// Parallel coordinates: an axis for each parameter, and one for the metric; a line for each trial with a
// value (best.h), the darker the better. A parameter that a trial does not have is below its axis.
std::string parallel_coordinates(const Space& space, const History& history, const Objective& objective);

// A point for each trial by its number and newest value: full for finished trials, hollow for others, a cross
// for those that failed or have no value; and a line for the best value so far.
std::string course_of_best(const History& history, const Objective& objective);

}  // namespace muster::launcher::sweep
