// Makes the same random orders as PyTorch, index for index, where PyTorch can make them. The samplers use
// torch only through this file.
//
// Each function draws from a new CPU generator with the given seed. Any thread can call them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster {

// Returns the first `count` entries of one randperm(size) after another.
std::vector<std::int64_t> permutations(std::int64_t size, std::int64_t count, std::uint64_t seed);
// Returns `count` entries of randint(size).
std::vector<std::int64_t> draws(std::int64_t size, std::int64_t count, std::uint64_t seed);
// Returns multinomial(weights, count, replacement). multinomial refuses more than `2^24` weights: for those,
// draws other numbers with the same probabilities. Without replacement, `count` must be at most the number of
// weights above 0.
std::vector<std::int64_t> weighted_draws(std::span<const double> weights, std::int64_t count,
                                         bool replacement, std::uint64_t seed);

}  // namespace muster
