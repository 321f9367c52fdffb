// Which examples this rank sees in an epoch, in the exact order of Python's
// torch.utils.data.DistributedSampler, over any sampler.
//
// The order of the epoch is lengthened from its own front to a multiple of the ranks, or shortened; rank r
// takes every num_replicas-th from r. Over a WeightedRandomSampler it is the distributed weighted one. Every
// DataLoader cuts its order so by itself; one that is given a DistributedSampler as its `sampler` takes it as
// it is. Nothing else takes one: a BatchSampler and another DistributedSampler want the order of all ranks. A
// plain value, safe to use from several threads.
#pragma once

#include <memory>
#include <muster/data/batch_plan.h>
#include <muster/data/sampler.h>

namespace muster {

// When the samples do not divide evenly among the ranks.
enum class UnevenRanks {
  kPad,   // some are repeated, as PyTorch's DistributedSampler does; info() marks them
  kDrop,  // the rest is left out: DistributedSampler's drop_last
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
  // Over a RandomSampler, or without shuffle a SequentialSampler. std::invalid_argument if the dataset is
  // empty, the rank is none of num_replicas, or kDrop leaves nothing.
  DistributedSampler(std::int64_t dataset_size, int num_replicas, int rank,
                     DistributedSamplerOptions options = {});
  DistributedSampler(std::shared_ptr<const Sampler> sampler, int num_replicas, int rank,
                     UnevenRanks uneven_ranks = UnevenRanks::kPad);

  std::int64_t size() const override;  // entries of this rank in each epoch
  std::int64_t padding() const;  // so many of them, the last ones, are repeated to fill this rank: 0 or 1
  std::vector<std::int64_t> indices(std::int64_t epoch) const override;  // size() of them
  int num_replicas() const { return static_cast<int>(num_replicas_); }
  int rank() const { return static_cast<int>(rank_); }
  UnevenRanks uneven_ranks() const { return uneven_ranks_; }

  // indices(epoch) in batches of batch_size on each rank, as a DataLoader has them; drop_last leaves out a
  // last batch that is not full on all ranks. Padding counts in the mean of a batch, as in PyTorch, so that
  // all weights are 1. With kKeep they are not, and the last batch may be missing on some ranks. `first`:
  // only the order from this place on, 0 <= first < its size, is cut among the ranks, as if it began there:
  // what is left for them when others have taken what comes before.
  BatchPlan plan(std::int64_t epoch, std::int64_t batch_size, bool drop_last = false,
                 std::int64_t first = 0) const;
  std::int64_t batches(std::int64_t batch_size, bool drop_last = false) const;  // of each whole epoch's plan

  // Of the order, not of the rank: the same on all ranks.
  std::string description() const override;

 private:
  // Of the order from the place `first` on: this rank's entries, where those of all ranks end, and batches.
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
