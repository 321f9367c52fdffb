// This rank's share of batches that stay the same on any number of ranks.
//
//   ElasticSampler(std::make_shared<BatchSampler>(order, 256, false), job.world_size(), job.rank())
//
// Each batch is divided among the ranks. The shares differ by at most one example, and the lower ranks get
// the larger shares. A rank multiplies its mean loss by the weight of its share. So 256 examples a step give
// the same mean gradient on 4, 3 or 2 ranks. The number of consumed batches is a place in the epoch that is
// valid for any number of ranks. So if a run continues with fewer ranks, it still uses each example exactly
// once. An ElasticSampler is a plain value, which several threads can use at once.
#pragma once

#include <memory>
#include <muster/data/batch_plan.h>
#include <muster/data/batch_sampler.h>
#include <string>

namespace muster {

class ElasticSampler {
 public:
  // Throws std::invalid_argument if `rank` is not in [0, num_replicas), or if a BatchSampler's batches have
  // fewer examples than there are ranks.
  ElasticSampler(std::shared_ptr<const BatchSamplerBase> batches, int num_replicas, int rank);

  // Returns a plan that has the same number of batches on all ranks. No batch is empty. A batch, usually the
  // last of an epoch, can have fewer examples than there are ranks. A rank without an example then gets the
  // batch's first example as padding, with weight 0. So it takes part in the step but adds nothing to the
  // gradient. Throws std::invalid_argument if even the largest batch has fewer examples than there are ranks,
  // or if the batches are not well-formed.
  BatchPlan plan(std::int64_t epoch) const;

  // Returns a description of the order. It is the same text on all ranks, and for any number of ranks.
  std::string description() const;

 private:
  struct Range {
    std::int64_t first, count;
  };
  Range range_in(std::int64_t of_all) const;
  PlannedBatch share(std::int64_t first, std::int64_t of_all,
                     const std::function<std::int64_t(std::int64_t place)>& index) const;
  BatchPlan computed_plan(std::int64_t epoch, const BatchSampler& batches) const;
  void check_largest(std::int64_t largest) const;

  std::shared_ptr<const BatchSamplerBase> batches_;
  std::int64_t num_replicas_;
  std::int64_t rank_;
};

}  // namespace muster
