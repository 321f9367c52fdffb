// Helpers for the classes that divide the order of an epoch among ranks or into batches.
//
// Several threads can call these functions at the same time.
#pragma once

#include <cstdint>
#include <muster/data/sampler.h>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/digest.h"

namespace muster {

constexpr std::int64_t divide_up(std::int64_t number, std::int64_t by) {
  return number / by + (number % by != 0 ? 1 : 0);
}

// Returns the seed of an epoch's generator.
constexpr std::uint64_t seed_of(std::uint64_t seed, std::int64_t epoch) {
  return seed + static_cast<std::uint64_t>(epoch);
}

// Returns the first 16 digits of the list's XXH3-128 hash. A sampler's description contains them, because two
// lists of the same size can differ.
template <class Value>
std::string digest_of(const std::vector<Value>& values) {
  constexpr std::size_t kDigits = 16;
  return xxh3_digest({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)})
      .substr(0, kDigits);
}

// Returns `sampler.indices(epoch)`. The sampler can be a class of the user. If it returns more or fewer
// entries than its size(), throws std::invalid_argument.
std::vector<std::int64_t> order_of(const Sampler& sampler, std::int64_t epoch);

// Returns the sampler as a ComputedSampler if it can compute single entries of its order. Otherwise returns
// null.
const ComputedSampler* computed(const Sampler& sampler);

// Some samplers give only the part of one rank, and not the order of all ranks together. For such a sampler,
// throws std::invalid_argument. Its text begins with `type`.
void check_of_all_ranks(std::string_view type, const Sampler& sampler);

// Returns the places where `count` parts begin, and then the place where the last part ends. The places are
// 0, step, `2 * step` and so on. A place that would be larger than `end` is `end`.
std::vector<std::int64_t> evenly_spaced(std::int64_t count, std::int64_t step, std::int64_t end);

// Throws std::invalid_argument unless `0 <= rank < num_replicas`. The text of the error begins with `type`.
void check_replica(std::string_view type, int num_replicas, int rank);

}  // namespace muster
