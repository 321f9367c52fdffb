// The same random orders as PyTorch's, index for index, wherever PyTorch can make them. This is the samplers'
// only file that uses torch.
//
// Each function draws from a fresh CPU generator with the given seed. Safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster {

// Returns `count` entries: those of randperm(size), then, if `count` is larger, of the next randperm(size).
std::vector<std::int64_t> permutations(std::int64_t size, std::int64_t count, std::uint64_t seed);
// `count` entries of randint(size).
std::vector<std::int64_t> draws(std::int64_t size, std::int64_t count, std::uint64_t seed);
// multinomial(weights, count, replacement). For more than 2^24 weights, which multinomial refuses, draws with
// the same probabilities. Without replacement `count` must be at most the number of weights above 0.
std::vector<std::int64_t> weighted_draws(std::span<const double> weights, std::int64_t count,
                                         bool replacement, std::uint64_t seed);

}  // namespace muster
