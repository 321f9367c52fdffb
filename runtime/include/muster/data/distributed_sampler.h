// Divides the order of any sampler among the ranks. Each rank gets exactly the samples that Python's
// torch.utils.data.DistributedSampler gives it, in the same order.
//
// First, the length of the order becomes a multiple of the number of ranks: the order is cut, or its first
// entries are repeated at its end. Then rank r takes the places r, `r + num_replicas`, `r + 2 * num_replicas`
// and so on. With a WeightedRandomSampler, this class is a distributed weighted sampler. A DataLoader divides
// the order of its `sampler` among the ranks. If the sampler is a DistributedSampler, its order is already
// divided, and the DataLoader does not divide it again. Do not give a DistributedSampler to a BatchSampler or
// to a second DistributedSampler: these need the order of all ranks, and throw. A DistributedSampler is a
// plain value, which several threads can use at once.
#pragma once

#include <memory>
#include <muster/data/batch_plan.h>
#include <muster/data/sampler.h>

namespace muster {

// Says what happens if the samples cannot be divided evenly among the ranks.
enum class UnevenRanks {
  kPad,   // some samples are repeated, as in PyTorch's DistributedSampler; info() marks them
  kDrop,  // the remaining samples are left out: DistributedSampler's drop_last
  kKeep,  // some ranks get fewer samples, and perhaps fewer batches: for evaluation
};

struct DistributedSamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;  // PyTorch's name for UnevenRanks::kDrop; excludes kKeep
  UnevenRanks uneven_ranks = UnevenRanks::kPad;
};

class DistributedSampler : public Sampler {
 public:
  // The first constructor divides the order of a RandomSampler. If `shuffle` is false, it divides the order
  // of a SequentialSampler instead. Throws std::invalid_argument if the dataset is empty, if `rank` is
  // negative or at least num_replicas, if kDrop would leave no sample, or if drop_last is given with kKeep.
  DistributedSampler(std::int64_t dataset_size, int num_replicas, int rank,
                     DistributedSamplerOptions options = {});
  DistributedSampler(std::shared_ptr<const Sampler> sampler, int num_replicas, int rank,
                     UnevenRanks uneven_ranks = UnevenRanks::kPad);

  std::int64_t size() const override;  // entries of this rank in each epoch
  // Returns the number of repeated samples at the end of this rank's share. It is 0 or 1.
  std::int64_t padding() const;
  std::vector<std::int64_t> indices(std::int64_t epoch) const override;  // size() entries
  int num_replicas() const { return static_cast<int>(num_replicas_); }
  int rank() const { return static_cast<int>(rank_); }
  UnevenRanks uneven_ranks() const { return uneven_ranks_; }

  // Returns indices(epoch) in batches of batch_size per rank, as a DataLoader uses them.
  // If the last batch is not full on all ranks, `drop_last` leaves it out.
  // As in PyTorch, repeated samples count in the mean of a batch, so the weight of each batch is 1. With
  // kKeep nothing is repeated: the weight of the last batch can differ from 1, and some ranks can have no
  // last batch. `first` is a place in the sampler's order, from 0. The plan divides only the order from this
  // place on among the ranks. This is for a run that continues in the middle of an epoch with another number
  // of ranks.
  BatchPlan plan(std::int64_t epoch, std::int64_t batch_size, bool drop_last = false,
                 std::int64_t first = 0) const;
  // Returns the number of batches in the plan of a whole epoch.
  std::int64_t batches(std::int64_t batch_size, bool drop_last = false) const;

  // Returns a description of the order. The description does not contain the rank, so it is the same on all
  // ranks.
  std::string description() const override;

 private:
  // These functions divide only the part of the order that begins at place `first`. size_from() returns the
  // number of entries that this rank gets. end_from() returns the place after the last entry that any rank
  // gets. batches_from() returns the number of batches.
  std::int64_t size_from(std::int64_t first) const;
  std::int64_t end_from(std::int64_t first) const;
  std::int64_t batches_from(std::int64_t first, std::int64_t batch_size, bool drop_last) const;
  using Lookup = std::function<std::int64_t(std::int64_t place)>;
  Lookup lookup(std::int64_t epoch, std::int64_t first, std::int64_t count) const;

  std::shared_ptr<const Sampler> sampler_;
  std::int64_t num_replicas_;
  std::int64_t rank_;
  UnevenRanks uneven_ranks_;
};

}  // namespace muster
