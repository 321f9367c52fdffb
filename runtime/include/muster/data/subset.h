// Datasets that are made of other datasets: a part of one, several in sequence, and a random split.
//
//   muster::Subset first(dataset, {0, 1, 2});
//   muster::ConcatDataset both(dataset, more);
//   auto parts = muster::random_split(dataset, {0.8, 0.2}, 42);   // or {48000, 12000}
//
// The names and the behavior are PyTorch's; random_split gives exactly PyTorch's indices. The classes copy no
// samples. The datasets that they are made of must outlive them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <muster/data/dataset.h>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {

namespace detail {

void check_subset(const std::string& name, std::int64_t size, const std::vector<std::int64_t>& indices);
// The lengths must sum to `size`, and the fractions to 1. Otherwise throws std::invalid_argument.
std::vector<std::vector<std::int64_t>> split_indices(const std::string& name, std::int64_t size,
                                                     const std::vector<std::int64_t>& lengths,
                                                     std::uint64_t seed);
std::vector<std::vector<std::int64_t>> split_indices(const std::string& name, std::int64_t size,
                                                     const std::vector<double>& fractions,
                                                     std::uint64_t seed);

// Reads a sample of an inner dataset. If that fails, the error names both datasets.
template <class Sample>
Sample get_from(const Dataset<Sample>& dataset, std::int64_t index) {
  try {
    return dataset.get(index);
  } catch (const std::exception&) {
    rethrow_bad_sample(dataset.name(), index);
  }
}

}  // namespace detail

// A part of another dataset: sample i is the sample indices[i] of `dataset`.
template <class Sample>
class Subset : public Dataset<Sample> {
 public:
  // Throws std::invalid_argument if an index is outside the dataset.
  Subset(const Dataset<Sample>& dataset, std::vector<std::int64_t> indices)
      : dataset_(dataset), indices_(std::move(indices)) {
    detail::check_subset(dataset_.name(), dataset_.size(), indices_);
  }
  Subset(const Dataset<Sample>&&, std::vector<std::int64_t>) = delete;

  std::int64_t size() const override { return std::ssize(indices_); }
  Sample get(std::int64_t index) const override {
    detail::check_index(*this, index);
    return detail::get_from(dataset_, indices_[static_cast<std::size_t>(index)]);
  }
  Collated<Sample> get_batch(std::span<const std::int64_t> indices) const override {
    detail::check_indices(*this, indices);
    std::vector<std::int64_t> theirs;
    theirs.reserve(indices.size());
    for (const std::int64_t index : indices) theirs.push_back(indices_[static_cast<std::size_t>(index)]);
    return dataset_.get_batch(theirs);
  }
  std::string name() const override { return "a subset of " + dataset_.name(); }
  const std::vector<std::int64_t>& indices() const { return indices_; }

 private:
  const Dataset<Sample>& dataset_;
  std::vector<std::int64_t> indices_;
};

// The samples of the first dataset, then those of the second, and so on.
template <class Sample>
class ConcatDataset : public Dataset<Sample> {
 public:
  explicit ConcatDataset(std::vector<const Dataset<Sample>*> datasets) : datasets_(std::move(datasets)) {
    for (const Dataset<Sample>* dataset : datasets_) ends_.push_back(size() + dataset->size());
  }
  template <class... More>
  explicit ConcatDataset(const Dataset<Sample>& first, const Dataset<Sample>& second, More&... more)
      : ConcatDataset(std::vector<const Dataset<Sample>*>{&first, &second, &more...}) {}
  template <class... More>
  explicit ConcatDataset(const Dataset<Sample>&&, More&&...) = delete;
  template <class... More>
  explicit ConcatDataset(const Dataset<Sample>&, const Dataset<Sample>&&, More&&...) = delete;

  std::int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Sample get(std::int64_t index) const override {
    detail::check_index(*this, index);
    const auto part = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    return detail::get_from(*datasets_[part], part == 0 ? index : index - ends_[part - 1]);
  }
  std::string name() const override {
    std::string all;
    for (const Dataset<Sample>* dataset : datasets_) all += (all.empty() ? "" : " + ") + dataset->name();
    return all;
  }

 private:
  std::vector<const Dataset<Sample>*> datasets_;
  std::vector<std::int64_t> ends_;
};

// Splits the dataset at random into parts that do not overlap, as PyTorch does with
// generator.manual_seed(seed). If `lengths` are integers, they are numbers of samples. If they are
// floating-point numbers, they are fractions of the dataset. If rounding leaves n samples over, each of the
// first n parts gets one more.
template <class Sample, class Number>
std::vector<Subset<Sample>> random_split(const Dataset<Sample>& dataset, const std::vector<Number>& lengths,
                                         std::uint64_t seed = 0) {
  using Exact = std::conditional_t<std::is_floating_point_v<Number>, double, std::int64_t>;
  const std::vector<Exact> exact(lengths.begin(), lengths.end());
  std::vector<Subset<Sample>> parts;
  for (auto& indices : detail::split_indices(dataset.name(), dataset.size(), exact, seed))
    parts.emplace_back(dataset, std::move(indices));
  return parts;
}
template <class Sample, class Number>
std::vector<Subset<Sample>> random_split(const Dataset<Sample>& dataset,
                                         std::initializer_list<Number> lengths, std::uint64_t seed = 0) {
  return random_split(dataset, std::vector<Number>(lengths), seed);
}

// These overloads are deleted, because a temporary dataset would be destroyed while the returned parts still
// use it.
template <class Sample, class Lengths>
void random_split(const Dataset<Sample>&&, const Lengths&, std::uint64_t = 0) = delete;
template <class Sample, class Number>
void random_split(const Dataset<Sample>&&, std::initializer_list<Number>, std::uint64_t = 0) = delete;

}  // namespace muster
