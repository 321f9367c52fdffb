#include "runtime/data/order/random_order.h"

#include <ATen/CPUGeneratorImpl.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <muster/data/sample_random.h>
#include <numeric>
#include <torch/torch.h>
#include <utility>

#include "runtime/data/order/order.h"

namespace muster {

namespace {

at::Generator generator_of(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

void append(std::vector<std::int64_t>& order, const at::Tensor& drawn, std::int64_t count) {
  const auto* first = drawn.data_ptr<std::int64_t>();
  order.insert(order.end(), first, first + count);
}

// append_permutation() has two ways to shuffle. For fewer numbers than this, it shuffles in its own loop,
// which gives the same order as torch's randperm(). randperm() is slow for them: it first fills the list in
// several threads, and takes ten times as long if no core is free.
constexpr std::int64_t kDrawnOneByOne = std::numeric_limits<std::uint32_t>::max() / 20;
void append_permutation(std::vector<std::int64_t>& order, std::int64_t size, std::int64_t count,
                        at::Generator& generator) {
  const std::size_t begin = order.size();
  order.resize(begin + static_cast<std::size_t>(size));
  const std::span drawn = std::span(order).subspan(begin);
  if (size >= kDrawnOneByOne) {
    at::Tensor here = at::from_blob(drawn.data(), {size}, at::kLong);
    at::randperm_out(here, size, generator);
  } else {
    std::iota(drawn.begin(), drawn.end(), 0);
    auto* random = generator.get<at::CPUGeneratorImpl>();
    for (std::size_t i = 0; i + 1 < drawn.size(); ++i)
      std::swap(drawn[i], drawn[i + random->random() % (drawn.size() - i)]);
  }
  order.resize(begin + static_cast<std::size_t>(count));
}

constexpr std::int64_t kMostOfMultinomial = std::int64_t{1} << 24;

// Draws `count` indices. An index can be drawn several times. For each of them, this function draws a random
// number and looks it up in the cumulative sums of the weights, as numpy.random.choice does.
std::vector<std::int64_t> draws_from_sums(std::span<const double> weights, std::int64_t count,
                                          SampleRandom random) {
  std::vector<double> sums(weights.size());
  std::partial_sum(weights.begin(), weights.end(), sums.begin());
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  for (std::int64_t& entry : order)
    entry = std::ranges::upper_bound(sums, random.uniform() * sums.back()) - sums.begin();
  return order;
}

// Draws `count` different indices, as torch's multinomial does. Each index gets a random time. The times have
// an exponential distribution whose rate is the weight of the index. Returns the indices with the shortest
// times. (Efraimidis and Spirakis: Weighted random sampling with a reservoir, 2006.)
std::vector<std::int64_t> first_arrivals(std::span<const double> weights, std::int64_t count,
                                         SampleRandom random) {
  std::vector<std::pair<double, std::int64_t>> arrivals;
  arrivals.reserve(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0)
      arrivals.emplace_back(-std::log1p(-random.uniform()) / weights[i], static_cast<std::int64_t>(i));
  }
  std::ranges::partial_sort(arrivals, arrivals.begin() + count);
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < count; ++i) order.push_back(arrivals[static_cast<std::size_t>(i)].second);
  return order;
}

}  // namespace

std::vector<std::int64_t> permutations(std::int64_t size, std::int64_t count, std::uint64_t seed) {
  at::Generator generator = generator_of(seed);
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(divide_up(count, size) * size));
  for (std::int64_t left = count; left > 0; left -= size)
    append_permutation(order, size, std::min(left, size), generator);
  return order;
}

std::vector<std::int64_t> draws(std::int64_t size, std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> order;
  // PyTorch's sampler draws 32 numbers at a time. Drawing all at once gives the same numbers.
  append(order, at::randint(size, {count}, generator_of(seed), at::kLong), count);
  return order;
}

std::vector<std::int64_t> weighted_draws(std::span<const double> weights, std::int64_t count,
                                         bool replacement, std::uint64_t seed) {
  if (std::ssize(weights) > kMostOfMultinomial)
    return replacement ? draws_from_sums(weights, count, SampleRandom(seed))
                       : first_arrivals(weights, count, SampleRandom(seed));
  // The const_cast is safe, because multinomial only reads the weights.
  const at::Tensor view = at::from_blob(const_cast<double*>(weights.data()),  // NOLINT
                                        {std::ssize(weights)}, at::kDouble);
  std::vector<std::int64_t> order;
  append(order, at::multinomial(view, count, replacement, generator_of(seed)), count);
  return order;
}

}  // namespace muster
