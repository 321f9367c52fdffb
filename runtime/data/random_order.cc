#include "runtime/data/random_order.h"

#include <ATen/CPUGeneratorImpl.h>
#include <algorithm>
#include <torch/torch.h>

namespace muster {

namespace {

at::Generator generator_of(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

void append(std::vector<std::int64_t>& order, const at::Tensor& drawn, std::int64_t count) {
  const auto* first = drawn.data_ptr<std::int64_t>();
  order.insert(order.end(), first, first + count);
}

}  // namespace

std::vector<std::int64_t> permutations(std::int64_t size, std::int64_t count, std::uint64_t seed) {
  const at::Generator generator = generator_of(seed);
  std::vector<std::int64_t> order;
  order.reserve(static_cast<std::size_t>(count));
  for (std::int64_t left = count; left > 0; left -= size) {
    append(order, at::randperm(size, generator, at::kLong), std::min(left, size));
  }
  return order;
}

std::vector<std::int64_t> draws(std::int64_t size, std::int64_t count, std::uint64_t seed) {
  std::vector<std::int64_t> order;
  // Python draws 32 at a time, which are the same numbers.
  append(order, at::randint(size, {count}, generator_of(seed), at::kLong), count);
  return order;
}

std::vector<std::int64_t> weighted_draws(std::span<const double> weights, std::int64_t count,
                                         bool replacement, std::uint64_t seed) {
  // multinomial only reads them.
  const at::Tensor view = at::from_blob(const_cast<double*>(weights.data()),  // NOLINT
                                        {std::ssize(weights)}, at::kDouble);
  std::vector<std::int64_t> order;
  append(order, at::multinomial(view, count, replacement, generator_of(seed)), count);
  return order;
}

}  // namespace muster
