// Batches as plain values: the indices of each batch, and what one rank needs to know about the others'
// parts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace muster {

// Lists of indices, one after the other: a whole epoch in two arrays, 8 bytes per example and per batch.
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
  // Number of padding indices at the end: they repeat indices from elsewhere in the epoch, only to fill the
  // batch. An evaluation leaves them out.
  std::int64_t padding = 0;
  // Multiply this rank's mean loss (or its gradients) by this factor: DistributedDataParallel's mean over the
  // ranks is then the mean over the whole batch. The factor is
  // `examples of this rank * ranks / examples of the batch`.
  double weight = 1;
};

// One rank's part of one epoch; computes each batch when it is asked for. Batch number b of all ranks
// together is one training step. A value; copies share their lookup tables. Safe to use from several threads.
class BatchPlan {
 public:
  // `batch(number)` returns batch `number`, from 0 to `size - 1`. `consumed_before` implements the member
  // function of that name.
  BatchPlan(std::int64_t size, std::function<PlannedBatch(std::int64_t number)> batch,
            std::function<std::int64_t(std::int64_t number)> consumed_before);

  std::int64_t size() const { return size_; }  // batches
  PlannedBatch operator[](std::int64_t number) const;
  // Returns the number of entries that all ranks together take before batch `number`, or in the whole epoch
  // if `number == size()`. Does not count padding with weight 0. The result is a place in the epoch that is
  // valid for any number of ranks.
  std::int64_t consumed_before(std::int64_t number) const;
  // Returns the number of the batch before which all ranks together have taken `consumed` entries. Returns
  // size() if this place is the end of the epoch, and nothing if it is in the middle of a batch.
  std::optional<std::int64_t> batch_at(std::int64_t consumed) const;

 private:
  std::int64_t size_;
  std::function<PlannedBatch(std::int64_t)> batch_;
  std::function<std::int64_t(std::int64_t)> consumed_before_;
};

}  // namespace muster
