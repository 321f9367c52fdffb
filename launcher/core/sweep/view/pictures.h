// Draws pictures of a sweep, as SVG. They show its points, and how its best value improved.
//
// People with any kind of colour vision can tell the colours apart, and each difference is also one of shape
// or place. If the mouse is over a trial, its number, parameters and value are shown. Pure.
#pragma once

#include <string>

#include "launcher/core/sweep/history/history.h"
#include "launcher/core/sweep/search/search.h"
#include "launcher/core/sweep/space/space.h"

namespace muster::launcher::sweep {

// Draws the trials with parallel coordinates. Each parameter has an axis, and so does the metric. Each trial
// with a value (best.h) is a line. The better the trial is, the darker the line. If a trial does not have a
// parameter, its line is below the axis there.
std::string parallel_coordinates(const Space& space, const History& history, const Objective& objective);

// Draws a point for each trial, at the trial's number and its newest value. The point of a finished trial is
// full, and that of any other trial is hollow. For a trial that failed or has no value, draws a cross. A line
// shows the best value so far.
std::string course_of_best(const History& history, const Objective& objective);

}  // namespace muster::launcher::sweep
