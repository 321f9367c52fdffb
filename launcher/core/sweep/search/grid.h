// The grid: all points of a finite space, in order.
//
// The last parameter changes fastest. Inactive parameters are left out, so that no point occurs twice.
// Ignores constraints. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "launcher/core/sweep/space/space.h"

namespace muster::launcher::sweep {

// Returns the value with this index. The values are numbered from 0 in ascending order. The parameter must
// have finitely many values.
Value nth_value(const Parameter& parameter, std::uint64_t index);

// Returns the number of points. Returns nullopt if it is not finite or is more than 2^53. Also returns
// nullopt if a condition names a parameter that has more than 2^20 values.
std::optional<std::uint64_t> grid_size(const Space& space);
// Returns the point with this index. The points are numbered from 0 to grid_size(space) - 1.
Point nth_point(const Space& space, std::uint64_t index);

}  // namespace muster::launcher::sweep
