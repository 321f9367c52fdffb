// PyTorch's random orders, to the index: the only file of the samplers that knows torch.
//
// Each draws from a fresh CPU generator with the given seed. They may run in several threads at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster {

// `count` entries of randperm(size), followed by the next randperm(size) where that is not enough.
std::vector<std::int64_t> permutations(std::int64_t size, std::int64_t count, std::uint64_t seed);
// `count` entries of randint(size).
std::vector<std::int64_t> draws(std::int64_t size, std::int64_t count, std::uint64_t seed);
// multinomial(weights, count, replacement).
std::vector<std::int64_t> weighted_draws(std::span<const double> weights, std::int64_t count,
                                         bool replacement, std::uint64_t seed);

}  // namespace muster
