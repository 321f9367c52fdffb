// Which examples this rank sees in an epoch, in the exact order of Python's
// torch.utils.data.DistributedSampler.
//
// The order of an epoch is randperm(size) of a CPU generator seeded with seed + epoch, or 0..size-1; it is
// lengthened from its own front to a multiple of the ranks, or with drop_last shortened; rank r takes every
// num_replicas-th from r. The epoch is an argument, so that no set_epoch can be forgotten. A plain value,
// safe to use from several threads.
#pragma once

#include <cstdint>
#include <vector>

namespace muster {

struct DistributedSamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;  // leave out the examples that do not fill all ranks, instead of repeating some
};

class DistributedSampler {
 public:
  // std::invalid_argument unless dataset_size >= 0 and 0 <= rank < num_replicas.
  DistributedSampler(std::int64_t dataset_size, int num_replicas, int rank,
                     DistributedSamplerOptions options = {});

  std::int64_t size() const { return num_samples_; }            // examples per rank and epoch
  std::vector<std::int64_t> indices(std::int64_t epoch) const;  // size() of them, each below dataset_size

 private:
  std::int64_t dataset_size_;
  std::int64_t num_replicas_;
  std::int64_t rank_;
  DistributedSamplerOptions options_;
  std::int64_t num_samples_;
};

}  // namespace muster
