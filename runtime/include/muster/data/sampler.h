// The order in which an epoch visits a dataset, over all ranks: PyTorch's samplers.
//
// An order depends only on the epoch. So there is no set_epoch() to forget, and a resumed run finds its place
// again. The random samplers draw from a CPU generator seeded with seed + epoch, and give exactly what
// Python's sampler of the same name gives with generator.manual_seed(seed + epoch). distributed_sampler.h,
// batch_sampler.h and elastic_sampler.h divide the order into the parts and batches of the ranks. A sampler
// never changes, so it is safe to use from several threads. Constructors throw std::invalid_argument, which
// names the argument, its value and what would be right; all of them refuse an empty dataset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster {

class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual std::int64_t size() const = 0;                                    // entries of each epoch
  virtual std::vector<std::int64_t> indices(std::int64_t epoch) const = 0;  // size() entries
  // Returns a description of the order, such as "RandomSampler(60000, seed 3)". A checkpoint contains it. A
  // run whose sampler has another description cannot resume from the checkpoint.
  virtual std::string description() const = 0;
};

// An order whose entries can be computed one by one. Loaders ask for the entries that they need and keep no
// list, so an epoch of any length takes no memory.
class ComputedSampler : public Sampler {
 public:
  virtual std::int64_t index(std::int64_t epoch, std::int64_t place) const = 0;  // 0 <= place < size()
  std::vector<std::int64_t> indices(std::int64_t epoch) const final;
};

// The order `0, 1, ..., dataset_size - 1`.
class SequentialSampler : public ComputedSampler {
 public:
  explicit SequentialSampler(std::int64_t dataset_size);
  std::int64_t size() const override { return dataset_size_; }
  std::int64_t index(std::int64_t /*epoch*/, std::int64_t place) const override { return place; }
  std::string description() const override;

 private:
  std::int64_t dataset_size_;
};

struct RandomSamplerOptions {
  bool replacement = false;                                // draw each entry from the whole dataset
  std::optional<std::int64_t> num_samples = std::nullopt;  // per epoch; empty: the dataset's size
  std::uint64_t seed = 0;
};

// A random order. If there is no replacement and num_samples is greater than the dataset's size, an epoch
// consists of several random orders, one after the other.
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(std::int64_t dataset_size, RandomSamplerOptions options = {});
  std::int64_t size() const override { return options_.num_samples.value_or(dataset_size_); }
  std::vector<std::int64_t> indices(std::int64_t epoch) const override;
  std::string description() const override;

 private:
  std::int64_t dataset_size_;
  RandomSamplerOptions options_;
};

// A random order without replacement, for datasets whose order is too long to keep in memory. Each entry is
// computed when it is needed. The sampler takes no memory and no time before the first batch; RandomSampler
// needs 8 bytes per sample on each rank while it makes the order. An entry takes about 60 ns. The order is
// not Python's. The permutation is a Feistel network of 8 rounds, keyed by seed and epoch, on the smallest
// rectangle of numbers that contains the dataset. If the permutation of a number is outside the dataset, it
// is permuted again, until the result is inside (cycle walking; Black and Rogaway: Ciphers with Arbitrary
// Finite Domains, 2002, methods 2 and 3).
class KeyedRandomSampler : public ComputedSampler {
 public:
  explicit KeyedRandomSampler(std::int64_t dataset_size, std::uint64_t seed = 0);
  std::int64_t size() const override { return dataset_size_; }
  std::int64_t index(std::int64_t epoch, std::int64_t place) const override;
  std::string description() const override;

 private:
  std::uint64_t permuted(std::uint64_t place, std::uint64_t key) const;

  std::int64_t dataset_size_;
  std::uint64_t seed_;
  std::uint64_t rows_, columns_;  // of the rectangle
};

// The given indices in a random order.
class SubsetRandomSampler : public Sampler {
 public:
  explicit SubsetRandomSampler(std::vector<std::int64_t> indices, std::uint64_t seed = 0);
  std::int64_t size() const override { return static_cast<std::int64_t>(subset_.size()); }
  std::vector<std::int64_t> indices(std::int64_t epoch) const override;
  std::string description() const override { return description_; }

 private:
  std::vector<std::int64_t> subset_;
  std::uint64_t seed_;
  std::string description_;
};

struct WeightedRandomSamplerOptions {
  bool replacement = true;  // false: no index twice in an epoch
  std::uint64_t seed = 0;
};

// Draws num_samples indices from 0 to `weights.size() - 1`, each with a probability in proportion to its
// weight. Weights need not sum to 1. The order is Python's for up to 2^24 weights. Python refuses more; this
// class then does the following:
// - With replacement it draws from the weights' cumulative sums, as numpy.random.choice does.
// - Without replacement it draws a number for each index from the exponential distribution whose rate is the
//   weight. It takes the indices with the smallest numbers.
// Without replacement, num_samples must not exceed the number of weights above 0. (Python does not check
// this, and draws indices of weight 0.)
class WeightedRandomSampler : public Sampler {
 public:
  WeightedRandomSampler(std::vector<double> weights, std::int64_t num_samples,
                        WeightedRandomSamplerOptions options = {});
  std::int64_t size() const override { return num_samples_; }
  std::vector<std::int64_t> indices(std::int64_t epoch) const override;
  std::string description() const override { return description_; }

 private:
  std::vector<double> weights_;
  std::int64_t num_samples_;
  WeightedRandomSamplerOptions options_;
  std::string description_;
};

}  // namespace muster
