// The points of a finite space in order: the grid.
//
// The last parameter changes fastest. Inactive parameters are left out, so that no point occurs twice.
// Ignores constraints. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "launcher/core/sweep/space/space.h"

namespace muster::launcher::sweep {

// Returns value number `index`, counted from 0 in ascending order. The parameter must have finitely many
// values.
Value nth_value(const Parameter& parameter, std::uint64_t index);

// The number of points. nullopt: not finite, more than 2^53, or a parameter that conditions name has over
// 2^20 values.
std::optional<std::uint64_t> grid_size(const Space& space);
// Point number `index` of 0 .. grid_size(space) - 1.
Point nth_point(const Space& space, std::uint64_t index);

}  // namespace muster::launcher::sweep
