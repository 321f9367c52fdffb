#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <muster/data/sample_random.h>
#include <muster/data/sampler.h>

#include "runtime/data/argument.h"
#include "runtime/data/order/order.h"
#include "runtime/data/order/random_order.h"

namespace muster {

namespace {

void check_count(const char* argument, std::int64_t count) {
  check_argument(count >= 1, argument, count, "at least 1");
}

void check_weights(const std::vector<double>& weights, std::int64_t num_samples, bool replacement) {
  std::int64_t usable = 0;
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0) {
      check_argument(false, fmt::format("WeightedRandomSampler: weights[{}]", i), weights[i],
                     "a number that is not negative");
    }
    if (weights[i] > 0) ++usable;
    sum += weights[i];
  }
  check_count("WeightedRandomSampler: the number of weights above 0", usable);
  check_argument(std::isfinite(sum), "WeightedRandomSampler: the sum of the weights", sum, "finite");
  check_argument(replacement || num_samples <= usable, "WeightedRandomSampler: num_samples", num_samples,
                 fmt::format("at most {}, the number of weights above 0, without replacement", usable));
}

}  // namespace

SequentialSampler::SequentialSampler(std::int64_t dataset_size) : dataset_size_(dataset_size) {
  check_count("SequentialSampler: dataset_size", dataset_size);
}

std::vector<std::int64_t> ComputedSampler::indices(std::int64_t epoch) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size()));
  for (std::size_t place = 0; place < order.size(); ++place)
    order[place] = index(epoch, static_cast<std::int64_t>(place));
  return order;
}

std::string SequentialSampler::description() const {
  return fmt::format("SequentialSampler({})", dataset_size_);
}

RandomSampler::RandomSampler(std::int64_t dataset_size, RandomSamplerOptions options)
    : dataset_size_(dataset_size), options_(options) {
  check_count("RandomSampler: dataset_size", dataset_size);
  check_count("RandomSampler: num_samples", size());
}

std::vector<std::int64_t> RandomSampler::indices(std::int64_t epoch) const {
  const std::uint64_t seed = seed_of(options_.seed, epoch);
  return options_.replacement ? draws(dataset_size_, size(), seed)
                              : permutations(dataset_size_, size(), seed);
}

std::string RandomSampler::description() const {
  return fmt::format("RandomSampler({}{}{}, seed {})", dataset_size_,
                     options_.num_samples ? fmt::format(", num_samples {}", size()) : "",
                     options_.replacement ? ", replacement" : "", options_.seed);
}

KeyedRandomSampler::KeyedRandomSampler(std::int64_t dataset_size, std::uint64_t seed)
    : dataset_size_(dataset_size), seed_(seed) {
  check_count("KeyedRandomSampler: dataset_size", dataset_size);
  const auto size = static_cast<std::uint64_t>(dataset_size);
  rows_ = static_cast<std::uint64_t>(std::ceil(std::sqrt(static_cast<double>(size))));
  columns_ = (size + rows_ - 1) / rows_;
}

// Returns the place that `place` moves to in a random order of all places. The places are written row by row
// into a rectangle. Each round shifts the row by a hash of the column, or the column by a hash of the row.
// Each shift can be undone. So two different places never move to the same place.
std::uint64_t KeyedRandomSampler::permuted(std::uint64_t place, std::uint64_t key) const {
  constexpr int kRounds = 8;
  std::uint64_t row = place / columns_;
  std::uint64_t column = place % columns_;
  SampleRandom keys(key);
  for (int round = 0; round < kRounds; round += 2) {
    row += static_cast<std::uint64_t>(SampleRandom(keys() ^ column).below(static_cast<std::int64_t>(rows_)));
    if (row >= rows_) row -= rows_;
    column +=
        static_cast<std::uint64_t>(SampleRandom(keys() ^ row).below(static_cast<std::int64_t>(columns_)));
    if (column >= columns_) column -= columns_;
  }
  return row * columns_ + column;
}

std::int64_t KeyedRandomSampler::index(std::int64_t epoch, std::int64_t place) const {
  const std::uint64_t key = seed_of(seed_, epoch);
  auto index = static_cast<std::uint64_t>(place);
  do index = permuted(index, key);
  while (index >= static_cast<std::uint64_t>(dataset_size_));
  return static_cast<std::int64_t>(index);
}

std::string KeyedRandomSampler::description() const {
  return fmt::format("KeyedRandomSampler({}, seed {})", dataset_size_, seed_);
}

SubsetRandomSampler::SubsetRandomSampler(std::vector<std::int64_t> indices, std::uint64_t seed)
    : subset_(std::move(indices)), seed_(seed) {
  check_count("SubsetRandomSampler: the number of indices", std::ssize(subset_));
  const auto least = std::ranges::min_element(subset_);
  check_argument(*least >= 0, fmt::format("SubsetRandomSampler: indices[{}]", least - subset_.begin()),
                 *least, "at least 0");
  description_ = fmt::format("SubsetRandomSampler({} indices of digest {}, seed {})", subset_.size(),
                             digest_of(subset_), seed_);
}

std::vector<std::int64_t> SubsetRandomSampler::indices(std::int64_t epoch) const {
  std::vector<std::int64_t> order = permutations(size(), size(), seed_of(seed_, epoch));
  for (std::int64_t& entry : order) entry = subset_[static_cast<std::size_t>(entry)];
  return order;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, std::int64_t num_samples,
                                             WeightedRandomSamplerOptions options)
    : weights_(std::move(weights)), num_samples_(num_samples), options_(options) {
  check_count("WeightedRandomSampler: num_samples", num_samples);
  check_weights(weights_, num_samples, options_.replacement);
  description_ = fmt::format("WeightedRandomSampler({} weights of digest {}, num_samples {}{}, seed {})",
                             weights_.size(), digest_of(weights_), num_samples_,
                             options_.replacement ? ", replacement" : "", options_.seed);
}

std::vector<std::int64_t> WeightedRandomSampler::indices(std::int64_t epoch) const {
  return weighted_draws(weights_, num_samples_, options_.replacement, seed_of(options_.seed, epoch));
}

}  // namespace muster
