// Checks counters that were read from the state in a journal. They will be incremented after that.
//
// The state is not trusted, so an impossible number must be rejected. Plain function.
#pragma once

#include <concepts>
#include <limits>

namespace muster::launcher {

// Returns whether the number is not negative, and so small that further increments cannot overflow.
template <std::signed_integral Number>
constexpr bool is_count(Number number) {
  return number >= 0 && number <= std::numeric_limits<Number>::max() / 2;
}

}  // namespace muster::launcher
