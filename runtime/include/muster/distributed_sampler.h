// Which examples this rank sees in an epoch, in the exact order of Python's
// torch.utils.data.DistributedSampler, over any sampler.
//
// The order of the epoch is lengthened from its own front to a multiple of the ranks, or with drop_last
// shortened; rank r takes every num_replicas-th from r. Over a WeightedRandomSampler it is the distributed
// weighted one. It is no Sampler: that gives the order of all ranks. A plain value, safe to use from several
// threads.
#pragma once

#include <memory>
#include <muster/batch_plan.h>
#include <muster/sampler.h>

namespace muster {

// What becomes of the examples that do not fill all ranks.
struct DistributedTail {
  bool drop_last = false;  // they are left out
  bool pad = true;  // false, for evaluation: each example once, and ranks may have one fewer than others
};

struct DistributedSamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;  // as in DistributedTail
  bool pad = true;
};

class DistributedSampler {
 public:
  // Over a RandomSampler, or without shuffle a SequentialSampler. std::invalid_argument if the dataset is
  // empty, the rank is none of num_replicas, or drop_last leaves nothing.
  DistributedSampler(std::int64_t dataset_size, int num_replicas, int rank,
                     DistributedSamplerOptions options = {});
  DistributedSampler(std::shared_ptr<const Sampler> sampler, int num_replicas, int rank,
                     DistributedTail tail = {});

  std::int64_t size() const;     // entries of this rank in each epoch
  std::int64_t padding() const;  // so many of them, the last ones, are repeated to fill this rank: 0 or 1
  std::vector<std::int64_t> indices(std::int64_t epoch) const;  // size() of them

  // indices(epoch) in batches of batch_size on each rank, as a DataLoader has them; drop_last leaves out a
  // last batch that is not full on all ranks. Padding counts in the mean of a batch, as in PyTorch, so that
  // all weights are 1. Without padding they are not, and the last batch may be missing on some ranks.
  BatchPlan plan(std::int64_t epoch, std::int64_t batch_size, bool drop_last = false) const;

  // Of the order, not of the rank: the same on all ranks.
  std::string description() const;

 private:
  std::int64_t total_size() const;  // entries of all ranks together

  std::shared_ptr<const Sampler> sampler_;
  std::int64_t num_replicas_;
  std::int64_t rank_;
  DistributedTail tail_;
};

}  // namespace muster
