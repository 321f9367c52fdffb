// Makes random orders. If PyTorch can make the same order, the two are equal in each index. The samplers use
// torch only through this file.
//
// Each function draws its numbers from a new CPU generator with the given seed. Any thread can call them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster {

// Returns `count` numbers. The first `size` of them are a result of torch's randperm(size), the next `size`
// of them are another one, and so on.
std::vector<std::int64_t> permutations(std::int64_t size, std::int64_t count, std::uint64_t seed);
// Returns `count` entries of randint(size).
std::vector<std::int64_t> draws(std::int64_t size, std::int64_t count, std::uint64_t seed);
// Draws `count` indices, each with the probability that its weight says. Returns the same as torch's
// multinomial(weights, count, replacement). But multinomial() refuses more than `2^24` weights. For so many
// weights, this function draws other numbers, with the same probabilities. If `replacement` is false, `count`
// must not be larger than the number of weights above 0.
std::vector<std::int64_t> weighted_draws(std::span<const double> weights, std::int64_t count,
                                         bool replacement, std::uint64_t seed);

}  // namespace muster
