// Numbers that stand in a journal's state, and go on being counted from there.
//
// The state may be anybody's: what cannot have been counted must not be counted on. Plain function.
#pragma once

#include <concepts>
#include <limits>

namespace muster::launcher {

// Neither below zero nor so near to the number's end that it may be reached.
template <std::signed_integral Number>
constexpr bool is_count(Number number) {
  return number >= 0 && number <= std::numeric_limits<Number>::max() / 2;
}

}  // namespace muster::launcher
