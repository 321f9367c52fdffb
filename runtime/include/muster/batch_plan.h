// Batches as plain values: the indices of each, and for one rank what it has to know of the others.
//
// All of an epoch stands in two arrays, so that it costs little more than 8 bytes an example.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace muster {

// Lists of indices, one behind the other.
struct IndexBatches {
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> offsets = {0};  // batch b is indices[offsets[b]] to indices[offsets[b + 1] - 1]

  std::int64_t size() const { return static_cast<std::int64_t>(offsets.size()) - 1; }  // batches
  std::span<const std::int64_t> operator[](std::int64_t number) const;
};

// What one rank loads in one epoch. Batch number b of all ranks together is one step of the training.
struct BatchPlan : IndexBatches {
  // global_offsets[b]: the entries that all ranks together take before batch b, padding included if it is
  // counted in their mean; one more than there are batches. As a place in the epoch it means the same with
  // any number of ranks.
  std::vector<std::int64_t> global_offsets = {0};
  std::vector<std::int32_t> padding;  // of each batch; empty: none anywhere
  std::vector<double> weights;        // of each batch; empty: all 1

  // So many of the batch's entries, its last ones, are there only to fill it: they are repeated from
  // elsewhere in the epoch, and an evaluation leaves them out.
  std::int64_t padding_of(std::int64_t number) const;
  // By this the rank's mean loss (or its gradients) is multiplied, so that the mean over ranks which
  // DistributedDataParallel makes is the mean over the whole batch: local count * ranks / global count.
  double weight_of(std::int64_t number) const;
  // The batch before which all ranks together have taken `consumed` entries; nothing if that is in the middle
  // of one. size() at the end of the epoch.
  std::optional<std::int64_t> batch_at(std::int64_t consumed) const;
};

}  // namespace muster
