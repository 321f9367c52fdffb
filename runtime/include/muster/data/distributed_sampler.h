// The samples that this rank reads in an epoch, in the exact order of Python's
// torch.utils.data.DistributedSampler, over any sampler.
//
// The sampler's order is padded with its first entries, or cut, to a multiple of the number of ranks. Rank r
// takes the places `r, r + num_replicas, r + 2 * num_replicas, ...` Over a WeightedRandomSampler this is a
// distributed weighted sampler. A DataLoader divides the order of its `sampler` among the ranks. If the
// sampler is a DistributedSampler, its order is already divided, and the DataLoader does not divide it again.
// Do not give a DistributedSampler to a BatchSampler or to a second DistributedSampler: these need the order
// of all ranks, and throw. A plain value, safe to use from several threads.
#pragma once

#include <memory>
#include <muster/data/batch_plan.h>
#include <muster/data/sampler.h>

namespace muster {

// If the samples do not divide evenly among the ranks:
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
  // Divides the order of a RandomSampler, or without shuffle of a SequentialSampler. Throws
  // std::invalid_argument if the dataset is empty, if `rank` is not in [0, num_replicas), if kDrop would
  // leave no sample, or if drop_last is given with kKeep.
  DistributedSampler(std::int64_t dataset_size, int num_replicas, int rank,
                     DistributedSamplerOptions options = {});
  DistributedSampler(std::shared_ptr<const Sampler> sampler, int num_replicas, int rank,
                     UnevenRanks uneven_ranks = UnevenRanks::kPad);

  std::int64_t size() const override;  // entries of this rank in each epoch
  // Repeated samples at the end of this rank's share: 0 or 1.
  std::int64_t padding() const;
  std::vector<std::int64_t> indices(std::int64_t epoch) const override;  // size() entries
  int num_replicas() const { return static_cast<int>(num_replicas_); }
  int rank() const { return static_cast<int>(rank_); }
  UnevenRanks uneven_ranks() const { return uneven_ranks_; }

  // Returns indices(epoch) in batches of batch_size per rank, as a DataLoader uses them.
  // `drop_last` leaves out the last batch unless it is full on all ranks.
  // Padding counts in the mean of a batch, as in PyTorch, so weights are 1. With kKeep, weights can differ
  // from 1 in the last batch, and some ranks can have no last batch.
  // `first` is a place in the sampler's order, from 0. The plan divides only the order from this place on
  // among the ranks. This is for a run that continues in the middle of an epoch with another number of ranks.
  BatchPlan plan(std::int64_t epoch, std::int64_t batch_size, bool drop_last = false,
                 std::int64_t first = 0) const;
  // Returns the number of batches in the plan of a whole epoch.
  std::int64_t batches(std::int64_t batch_size, bool drop_last = false) const;

  // Describes the order, not the rank: the same text on all ranks.
  std::string description() const override;

 private:
  // These functions are for the part of the order from the place `first` on. They return the number of this
  // rank's entries, the place where the entries of all ranks end, and the number of batches.
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
