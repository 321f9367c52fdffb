#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <muster/data/stack_dataset.h>
#include <muster/data/subset.h>
#include <numeric>
#include <stdexcept>
#include <type_traits>

#include "runtime/data/argument.h"
#include "runtime/data/order/random_order.h"

namespace muster::detail {

namespace {

constexpr double kCloseToOne = 1e-9;  // the default tolerance of Python's math.isclose

template <class Number>
void check_lengths(bool usable, const std::vector<Number>& lengths, std::int64_t size,
                   const std::string& name) {
  // {6.0, 4.0} prints as [6, 4], which looks like integers.
  const auto* const what =
      std::is_integral_v<Number> ? "random_split: lengths" : "random_split: floating-point lengths";
  check_argument(usable, what, fmt::format("[{}]", fmt::join(lengths, ", ")),
                 fmt::format("integers from 0 with the sum {}, the samples of {}, "
                             "or fractions from 0 to 1 with the sum 1",
                             size, name));
}

}  // namespace

void check_subset(const std::string& name, std::int64_t size, const std::vector<std::int64_t>& indices) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    check_argument(indices[i] >= 0 && indices[i] < size, fmt::format("Subset: indices[{}]", i), indices[i],
                   fmt::format("from 0 to {}, a sample of {}", size - 1, name));
  }
}

std::vector<std::vector<std::int64_t>> split_indices(const std::string& name, std::int64_t size,
                                                     const std::vector<std::int64_t>& lengths,
                                                     std::uint64_t seed) {
  const bool is_sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}) == size;
  check_lengths(is_sum && std::ranges::none_of(lengths, [](auto length) { return length < 0; }), lengths,
                size, name);
  std::vector<std::vector<std::int64_t>> parts;
  if (size == 0) return std::vector<std::vector<std::int64_t>>(lengths.size());
  const std::vector<std::int64_t> order = permutations(size, size, seed);
  auto begin = order.begin();
  for (const std::int64_t length : lengths) {
    parts.emplace_back(begin, begin + length);
    begin += length;
  }
  return parts;
}

std::vector<std::vector<std::int64_t>> split_indices(const std::string& name, std::int64_t size,
                                                     const std::vector<double>& fractions,
                                                     std::uint64_t seed) {
  const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  const bool is_sum = sum <= 1 && sum > 1 - kCloseToOne;
  check_lengths(is_sum && std::ranges::all_of(fractions, [](double each) { return each >= 0 && each <= 1; }),
                fractions, size, name);
  std::vector<std::int64_t> lengths;
  for (const double fraction : fractions)
    lengths.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(size) * fraction)));
  const std::int64_t rest = size - std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  for (std::int64_t i = 0; i < rest; ++i) ++lengths[static_cast<std::size_t>(i) % lengths.size()];
  return split_indices(name, size, lengths, seed);
}

void check_stack(std::span<const std::int64_t> sizes, std::span<const std::string> names) {
  for (std::size_t i = 1; i < sizes.size(); ++i)
    check_argument(sizes[i] == sizes[0], fmt::format("StackDataset: the size of {}", names[i]), sizes[i],
                   fmt::format("that of {}, {}", names[0], sizes[0]));
}

}  // namespace muster::detail
