#include <ATen/CPUGeneratorImpl.h>
#include <fmt/core.h>
#include <muster/sampler.h>
#include <numeric>
#include <stdexcept>
#include <torch/torch.h>

namespace muster {

namespace {

std::int64_t divide_up(std::int64_t number, std::int64_t by) {
  return (number + by - 1) / by;
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t dataset_size, int num_replicas, int rank,
                                       DistributedSamplerOptions options)
    : dataset_size_(dataset_size), num_replicas_(num_replicas), rank_(rank), options_(options) {
  if (dataset_size < 0 || num_replicas < 1 || rank < 0 || rank >= num_replicas) {
    throw std::invalid_argument(
        fmt::format("DistributedSampler: rank {} of {} with {} examples", rank, num_replicas, dataset_size));
  }
  num_samples_ = options.drop_last ? dataset_size_ / num_replicas_ : divide_up(dataset_size_, num_replicas_);
}

std::vector<std::int64_t> DistributedSampler::indices(std::int64_t epoch) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(dataset_size_));
  if (options_.shuffle) {
    const auto generator =
        at::make_generator<at::CPUGeneratorImpl>(options_.seed + static_cast<std::uint64_t>(epoch));
    const at::Tensor permutation =
        at::randperm(dataset_size_, generator, at::TensorOptions().dtype(at::kLong));
    const auto* first = permutation.data_ptr<std::int64_t>();
    order.assign(first, first + dataset_size_);
  } else {
    std::iota(order.begin(), order.end(), 0);
  }
  std::vector<std::int64_t> mine(static_cast<std::size_t>(num_samples_));
  for (std::int64_t i = 0; i < num_samples_; ++i) {
    // Past the end Python repeats the order from its front, as often as needed.
    const std::int64_t place = (rank_ + i * num_replicas_) % dataset_size_;
    mine[static_cast<std::size_t>(i)] = order[static_cast<std::size_t>(place)];
  }
  return mine;
}

}  // namespace muster
