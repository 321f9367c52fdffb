// The batches of an epoch over all ranks together: PyTorch's BatchSampler, and one that puts examples of
// similar length together.
//
// As samplers do, they give an epoch as a function of its number alone; they never change and are safe to use
// from several threads. Their batches are those of the whole job: an ElasticSampler cuts each among the
// ranks, so that they stay the same on any number of ranks. For a limit per rank give them that limit times
// job.world_size(). Constructors throw std::invalid_argument, which names argument, value and what would be
// right.
#pragma once

#include <memory>
#include <muster/data/batch_plan.h>
#include <muster/data/sampler.h>
#include <optional>
#include <string>
#include <vector>

namespace muster {

class BatchSamplerBase {
 public:
  virtual ~BatchSamplerBase() = default;
  virtual IndexBatches batches(std::int64_t epoch) const = 0;  // at least one, and none of them empty
  virtual std::string description() const = 0;                 // as Sampler's
};

// The order of a sampler in batches of batch_size; the last of an epoch may be smaller, or with drop_last it
// is left out.
class BatchSampler : public BatchSamplerBase {
 public:
  BatchSampler(std::shared_ptr<const Sampler> sampler, std::int64_t batch_size, bool drop_last);
  std::int64_t size() const;  // batches of each epoch
  std::int64_t batch_size() const { return batch_size_; }
  std::int64_t entries() const;             // in all batches of an epoch
  const ComputedSampler* computed() const;  // what it is made of, if that is one; else null
  IndexBatches batches(std::int64_t epoch) const override;
  std::string description() const override;

 private:
  std::shared_ptr<const Sampler> sampler_;
  std::int64_t batch_size_;
  bool drop_last_;
};

struct BucketBatchSamplerOptions {
  // A batch has as many examples as both limits allow; at least one of them has to be given.
  std::optional<std::int64_t> batch_size = std::nullopt;  // examples
  std::optional<std::int64_t> max_tokens = std::nullopt;  // examples * the longest of them: padding counts
  // Counts above this are rounded down to a multiple of it. With the number of ranks, or 12 for 2, 3, 4 and 6
  // of them, ranks get equal shares, and none has more than max_tokens / ranks, unless one example is longer.
  std::int64_t multiple_of = 1;
  // Examples are sorted among so many batches of them: more waste less on padding, fewer mix better.
  std::int64_t window_batches = 100;
  bool shuffle = true;
  std::uint64_t seed = 0;
};

// The dataset in a random order, which is cut into windows; each window is sorted by length and cut into
// batches; the batches come in a random order. Each example is in one batch of an epoch. Within a batch the
// longest comes first. Without shuffle all stays in the order of the dataset, window by window.
class BucketBatchSampler : public BatchSamplerBase {
 public:
  // lengths[i]: that of example i of the dataset, at most max_tokens.
  BucketBatchSampler(const std::vector<std::int64_t>& lengths, BucketBatchSamplerOptions options);
  IndexBatches batches(std::int64_t epoch) const override;  // with max_tokens, not always equally many
  std::string description() const override { return description_; }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(class_of_.size()); }
  std::int64_t fitting(std::int64_t longest) const;
  std::vector<std::int64_t> sorted_in_windows(std::int64_t epoch) const;

  BucketBatchSamplerOptions options_;
  std::vector<std::int64_t> class_length_;  // the lengths there are, longest first
  std::vector<std::int64_t> class_begin_;   // where the examples of each begin when all are sorted
  std::vector<std::uint32_t> class_of_;     // of each example
  std::int64_t window_ = 0;                 // examples
  std::string description_;
};

}  // namespace muster
