// The batches of an epoch over all ranks together: PyTorch's BatchSampler, and a sampler that groups examples
// of similar length.
//
// Like a Sampler, a batch sampler computes an epoch from its number alone, never changes, and is safe to use
// from several threads. Its batches belong to the whole job: an ElasticSampler divides each batch among the
// ranks, so the batches are the same on any number of ranks. For a limit per rank, multiply the limit by
// job.world_size(). Constructors throw std::invalid_argument, which names the argument, its value and what
// would be right.
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
  virtual IndexBatches batches(std::int64_t epoch) const = 0;  // at least one batch, none empty
  virtual std::string description() const = 0;                 // as Sampler::description()
};

// Cuts the order of a sampler into batches of batch_size. The last batch of an epoch can be smaller. If
// drop_last is true, a smaller last batch is left out.
class BatchSampler : public BatchSamplerBase {
 public:
  BatchSampler(std::shared_ptr<const Sampler> sampler, std::int64_t batch_size, bool drop_last);
  std::int64_t size() const;  // batches per epoch
  std::int64_t batch_size() const { return batch_size_; }
  std::int64_t entries() const;             // in all batches of an epoch
  const ComputedSampler* computed() const;  // the sampler if it is a ComputedSampler, else null
  IndexBatches batches(std::int64_t epoch) const override;
  std::string description() const override;

 private:
  std::shared_ptr<const Sampler> sampler_;
  std::int64_t batch_size_;
  bool drop_last_;
};

struct BucketBatchSamplerOptions {
  // A batch has as many examples as both limits allow. At least one limit must be given.
  std::optional<std::int64_t> batch_size = std::nullopt;  // examples
  std::optional<std::int64_t> max_tokens = std::nullopt;  // examples * length of the longest: padding counts
  // If a batch has more examples than multiple_of, its size is rounded down to a multiple of multiple_of. Set
  // multiple_of to the number of ranks (or to 12 for 2, 3, 4 or 6 ranks). All ranks then get equal shares, of
  // at most `max_tokens / ranks` tokens unless a single example is longer.
  std::int64_t multiple_of = 1;
  // Examples are sorted by length within a window of this many batches. Larger windows waste less on padding;
  // smaller windows mix the examples better.
  std::int64_t window_batches = 100;
  bool shuffle = true;
  std::uint64_t seed = 0;
};

// Puts the dataset into a random order and cuts it into windows. Sorts each window by length and cuts it into
// batches. Returns all batches in a random order. Each example is in exactly one batch of an epoch. Within a
// batch the longest example is first. Without shuffle the windows follow the dataset's order.
class BucketBatchSampler : public BatchSamplerBase {
 public:
  // lengths[i] is the length of example i, at most max_tokens.
  BucketBatchSampler(const std::vector<std::int64_t>& lengths, BucketBatchSamplerOptions options);
  IndexBatches batches(std::int64_t epoch) const override;  // with max_tokens their number differs by epoch
  std::string description() const override { return description_; }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(class_of_.size()); }
  std::int64_t fitting(std::int64_t longest) const;
  std::vector<std::int64_t> sorted_in_windows(std::int64_t epoch) const;

  BucketBatchSamplerOptions options_;
  std::vector<std::int64_t> class_length_;  // the lengths that occur, longest first
  std::vector<std::int64_t> class_begin_;   // where each length's examples begin when all are sorted
  std::vector<std::uint32_t> class_of_;     // per example: its place in class_length_
  std::int64_t window_ = 0;                 // examples
  std::string description_;
};

}  // namespace muster
