// Helpers of the classes that divide the order of an epoch.
//
// Several threads can call these functions at once.
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

// Returns the first 16 digits of the list's XXH3-128. Descriptions contain it, because two lists can have
// the same size.
template <class Value>
std::string digest_of(const std::vector<Value>& values) {
  constexpr std::size_t kDigits = 16;
  return xxh3_digest({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)})
      .substr(0, kDigits);
}

// Returns `sampler.indices(epoch)`. Throws std::invalid_argument if a user's sampler returns fewer or more
// entries than its size().
std::vector<std::int64_t> order_of(const Sampler& sampler, std::int64_t epoch);

// Returns the sampler if it can compute single entries, else null.
const ComputedSampler* computed(const Sampler& sampler);

// Throws std::invalid_argument, with a text that begins with `type`, if the sampler gives one rank's part and
// not the order of all ranks together.
void check_of_all_ranks(std::string_view type, const Sampler& sampler);

// Returns where `count` parts begin (0, step, `2 * step` and so on), and then where the last part ends.
// Limits every place to `end`.
std::vector<std::int64_t> evenly_spaced(std::int64_t count, std::int64_t step, std::int64_t end);

// Throws std::invalid_argument, with a text that begins with `type`, unless `0 <= rank < num_replicas`.
void check_replica(std::string_view type, int num_replicas, int rank);

}  // namespace muster
