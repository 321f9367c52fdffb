// The points of a finite space in order: the grid.
//
// The last parameter changes fastest. An inactive parameter takes no part, so that no point occurs twice.
// Constraints are not looked at. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "launcher/core/sweep/space/space.h"

namespace muster::launcher::sweep {

// Value number `index`, from 0, of a parameter with finitely many, ascending.
Value nth_value(const Parameter& parameter, std::uint64_t index);

// The number of points; nullopt: not finite, or more than 2^53.
std::optional<std::uint64_t> grid_size(const Space& space);
// Point number `index` of 0 .. grid_size(space) - 1.
Point nth_point(const Space& space, std::uint64_t index);

}  // namespace muster::launcher::sweep
