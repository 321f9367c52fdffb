// Batches as plain values: the indices of each, and for one rank what it has to know of the others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace muster {

// Lists of indices, one behind the other: all of an epoch in two arrays, 8 bytes an example and a batch.
struct IndexBatches {
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> offsets = {0};  // batch b is indices[offsets[b]] to indices[offsets[b + 1] - 1]

  std::int64_t size() const { return static_cast<std::int64_t>(offsets.size()) - 1; }  // batches
  std::span<const std::int64_t> operator[](std::int64_t number) const;
};

// What one rank loads of one batch.
struct PlannedBatch {
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> places;  // of each of them, in the order of the epoch over all ranks
  // So many of them, the last ones, are there only to fill the batch: they are repeated from elsewhere in the
  // epoch, and an evaluation leaves them out.
  std::int64_t padding = 0;
  // By this the rank's mean loss (or its gradients) is multiplied, so that the mean over ranks which
  // DistributedDataParallel makes is the mean over the whole batch: local count * ranks / global count.
  double weight = 1;
};

// What one rank loads in one epoch, each batch made out when it is asked for. Batch number b of all ranks
// together is one step of the training. A value whose copies share what they look things up in; safe to use
// from several threads.
class BatchPlan {
 public:
  // `batch` gives the batches 0 to size - 1, `consumed_before` what the function of that name says.
  BatchPlan(std::int64_t size, std::function<PlannedBatch(std::int64_t number)> batch,
            std::function<std::int64_t(std::int64_t number)> consumed_before);

  std::int64_t size() const { return size_; }  // batches
  PlannedBatch operator[](std::int64_t number) const;
  // The entries that all ranks together take before this batch, padding included if it is counted in their
  // mean; before batch size(), in the whole epoch. As a place in the epoch it means the same with any number
  // of ranks.
  std::int64_t consumed_before(std::int64_t number) const;
  // The batch before which all ranks together have taken `consumed` entries; nothing if that is in the middle
  // of one. size() at the end of the epoch.
  std::optional<std::int64_t> batch_at(std::int64_t consumed) const;

 private:
  std::int64_t size_;
  std::function<PlannedBatch(std::int64_t)> batch_;
  std::function<std::int64_t(std::int64_t)> consumed_before_;
};

}  // namespace muster
