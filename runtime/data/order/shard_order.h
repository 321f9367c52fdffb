// Computes the order of a stream's parts (archives, row groups) in one epoch. All ranks and workers get
// the same order.
#pragma once

#include <cstdint>
#include <muster/data/iterable_dataset.h>
#include <muster/data/sample_random.h>
#include <numeric>
#include <utility>
#include <vector>

namespace muster {

inline std::vector<std::size_t> order_of_parts(std::size_t count, bool shuffled, const Shard& shard) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!shuffled) return order;
  SampleRandom first(shard.seed);
  SampleRandom random(first() + static_cast<std::uint64_t>(shard.epoch));
  for (std::size_t left = count; left > 1; --left)
    std::swap(order[left - 1],
              order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(left)))]);
  return order;
}

}  // namespace muster
