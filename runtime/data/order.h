// What all that cut the order of an epoch into parts have in common.
//
// Plain functions; each may run in several threads at once.
#pragma once

#include <cstdint>
#include <muster/sampler.h>
#include <string_view>
#include <vector>

namespace muster {

constexpr std::int64_t divide_up(std::int64_t number, std::int64_t by) {
  return (number + by - 1) / by;
}

// sampler.indices(epoch). std::invalid_argument if a sampler of somebody else's gives fewer or more than it
// says.
std::vector<std::int64_t> order_of(const Sampler& sampler, std::int64_t epoch);

// 0, step, 2 * step, ...: where `count` parts begin, and where the last one ends, which is at most at `end`.
std::vector<std::int64_t> evenly_spaced(std::int64_t count, std::int64_t step, std::int64_t end);

// std::invalid_argument, in the name of `type`, unless 0 <= rank < num_replicas.
void check_replica(std::string_view type, int num_replicas, int rank);

}  // namespace muster
