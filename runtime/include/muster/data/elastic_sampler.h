// This rank's part of batches that are the same on any number of ranks.
//
//   ElasticSampler(std::make_shared<BatchSampler>(order, 256, false), job.world_size(), job.rank())
//
// Each batch is cut among the ranks into shares that differ by one example at most, the larger ones on the
// lower ranks, and each share has the weight by which its mean loss is multiplied. So 256 examples a step
// give the same mean gradient on 4, 3 or 2 ranks, and the number of batches consumed is a place in the epoch
// that holds for any number of ranks: a run that goes on with fewer of them uses each example exactly once. A
// plain value, safe to use from several threads.
#pragma once

#include <memory>
#include <muster/data/batch_plan.h>
#include <muster/data/batch_sampler.h>
#include <string>

namespace muster {

class ElasticSampler {
 public:
  // std::invalid_argument unless rank is one of num_replicas, or if there are more ranks than examples in a
  // BatchSampler's batches.
  ElasticSampler(std::shared_ptr<const BatchSamplerBase> batches, int num_replicas, int rank);

  // Equally many batches on all ranks, none of them empty: a rank for which a batch (the last of an epoch, as
  // a rule) has too few examples gets the first of that batch as padding, with weight 0, and so takes part in
  // the step and adds nothing. std::invalid_argument if there are more ranks than examples in the largest
  // batch, which leaves some without any, or if the batches are not well-formed.
  BatchPlan plan(std::int64_t epoch) const;

  // The same for all ranks, and for any number of them.
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
