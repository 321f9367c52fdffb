// Sobol's points: a sequence that fills the unit cube more evenly than random numbers do. Divide the range of
// a coordinate into 2^m equal intervals. Then each interval contains exactly one of the first 2^m points.
//
// The direction numbers are those of S. Joe and F. Y. Kuo, Constructing Sobol sequences with better
// two-dimensional projections, SIAM J. Sci. Comput. 30 (2008) 2635-2654, file new-joe-kuo-6.21201. A seed
// scrambles the points. The property above stays (A. B. Owen, Randomly permuted (t,m,s)-nets and
// (t,s)-sequences, 1995). Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::launcher::sweep {

constexpr std::size_t kSobolDimensions = 64;

// Returns the binary digits of one coordinate of a point. `index` is the number of the point. The first digit
// is the highest bit. `dimension` must be below kSobolDimensions.
std::uint32_t sobol_digits(std::size_t dimension, std::uint32_t index);
// Scrambles the digits by Owen's method. For each digit, a random decision says whether it is flipped. The
// decision depends on the digits before it.
std::uint32_t owen_scrambled(std::uint32_t digits, std::uint64_t seed, std::size_t dimension);
// Returns a point of the scrambled sequence. `index` is its number in the sequence. The coordinates are in
// [0, 1).
std::vector<double> sobol_point(std::size_t dimensions, std::uint32_t index, std::uint64_t seed);

}  // namespace muster::launcher::sweep
