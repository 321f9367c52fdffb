#include <cmath>
#include <fmt/ranges.h>
#include <muster/data/stack_dataset.h>
#include <muster/data/subset.h>
#include <numeric>
#include <stdexcept>

#include "runtime/data/argument.h"
#include "runtime/data/order/random_order.h"

namespace muster::detail {

namespace {

constexpr double kCloseToOne = 1e-9;  // the default tolerance of Python's math.isclose

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
  const auto text = fmt::format("[{}]", fmt::join(lengths, ", "));
  for (const std::int64_t length : lengths)
    check_argument(length >= 0, "random_split: lengths", text, "at least 0 each");
  check_argument(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}) == size,
                 "random_split: lengths", text,
                 fmt::format("{} together, the samples of {}, or fractions of 1", size, name));
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
  const auto text = fmt::format("[{}]", fmt::join(fractions, ", "));
  for (const double fraction : fractions)
    check_argument(fraction >= 0 && fraction <= 1, "random_split: lengths", text, "from 0 to 1 each");
  const double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  check_argument(sum <= 1 && sum > 1 - kCloseToOne, "random_split: lengths", text,
                 "1 together, or whole numbers of samples");
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
