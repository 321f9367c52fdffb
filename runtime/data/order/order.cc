#include "runtime/data/order/order.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <muster/data/distributed_sampler.h>
#include <stdexcept>

#include "runtime/data/argument.h"

namespace muster {

std::vector<std::int64_t> order_of(const Sampler& sampler, std::int64_t epoch) {
  std::vector<std::int64_t> order = sampler.indices(epoch);
  if (std::ssize(order) != sampler.size()) {
    throw std::invalid_argument(fmt::format("{}: indices({}) gave {} entries, and its size() is {}",
                                            sampler.description(), epoch, order.size(), sampler.size()));
  }
  return order;
}

const ComputedSampler* computed(const Sampler& sampler) {
  return dynamic_cast<const ComputedSampler*>(&sampler);
}

void check_of_all_ranks(std::string_view type, const Sampler& sampler) {
  if (dynamic_cast<const DistributedSampler*>(&sampler) == nullptr) return;
  throw std::invalid_argument(
      fmt::format("{}: sampler = {} is already one rank's part, and would be split a second time; "
                  "pass the sampler that it was made from",
                  type, sampler.description()));
}

std::vector<std::int64_t> evenly_spaced(std::int64_t count, std::int64_t step, std::int64_t end) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(count) + 1);
  for (std::int64_t i = 0; i <= count; ++i) places[static_cast<std::size_t>(i)] = std::min(i * step, end);
  return places;
}

void check_replica(std::string_view type, int num_replicas, int rank) {
  check_argument(num_replicas >= 1, fmt::format("{}: num_replicas", type), num_replicas, "at least 1");
  check_argument(rank >= 0 && rank < num_replicas, fmt::format("{}: rank", type), rank,
                 fmt::format("from 0 to {}, one of {} ranks", num_replicas - 1, num_replicas));
}

}  // namespace muster
