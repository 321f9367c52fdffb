// Plain values that describe batches: the indices of each batch, and what one rank needs to know about the
// parts of the other ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace muster {

// Several lists of indices, stored one after the other. A whole epoch needs only two arrays, with 8 bytes per
// example and 8 bytes per batch.
struct IndexBatches {
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> offsets = {0};  // batch b is indices[offsets[b]] to indices[offsets[b + 1] - 1]

  std::int64_t size() const { return static_cast<std::int64_t>(offsets.size()) - 1; }  // batches
  std::span<const std::int64_t> operator[](std::int64_t number) const;
};

// One rank's part of one batch.
struct PlannedBatch {
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> places;  // for each index, its place in the order of the epoch over all ranks
  // The number of padding indices at the end. They only fill the batch, and repeat indices that occur
  // elsewhere in the epoch. An evaluation leaves them out.
  std::int64_t padding = 0;
  // Multiply this rank's mean loss, or its gradients, by this factor. It is
  // `examples of this rank * ranks / examples of the batch`. DistributedDataParallel then computes the mean
  // over the ranks, and the result is the mean over the whole batch.
  double weight = 1;
};

// One rank's share of one epoch. A BatchPlan computes each batch when a caller asks for it. The batches with
// the same number on all ranks make one training step. A BatchPlan is a value; copies share their lookup
// tables. Several threads can use it at once.
class BatchPlan {
 public:
  // batch(n) returns the batch with number n, from 0 to `size - 1`. `consumed_before` computes the result of
  // the member function consumed_before().
  BatchPlan(std::int64_t size, std::function<PlannedBatch(std::int64_t number)> batch,
            std::function<std::int64_t(std::int64_t number)> consumed_before);

  std::int64_t size() const { return size_; }  // batches
  PlannedBatch operator[](std::int64_t number) const;
  // Returns the number of entries that all ranks together take before batch `number`. If `number` is size(),
  // that is the number in the whole epoch. Padding with weight 0 does not count. The result is a place in the
  // epoch that is valid for any number of ranks.
  std::int64_t consumed_before(std::int64_t number) const;
  // All ranks together have taken `consumed` entries. Returns the number of the batch that begins at this
  // place. If the place is the end of the epoch, returns size(). If it is in the middle of a batch, returns
  // nothing.
  std::optional<std::int64_t> batch_at(std::int64_t consumed) const;

 private:
  std::int64_t size_;
  std::function<PlannedBatch(std::int64_t)> batch_;
  std::function<std::int64_t(std::int64_t)> consumed_before_;
};

}  // namespace muster
