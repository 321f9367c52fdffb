#include <algorithm>
#include <fmt/core.h>
#include <muster/distributed_sampler.h>

#include "runtime/data/argument.h"
#include "runtime/data/order.h"

namespace muster {

namespace {

std::shared_ptr<const Sampler> sampler_of(std::int64_t dataset_size,
                                          const DistributedSamplerOptions& options) {
  check_argument(dataset_size >= 1, "DistributedSampler: dataset_size", dataset_size, "at least 1");
  if (!options.shuffle) return std::make_shared<SequentialSampler>(dataset_size);
  return std::make_shared<RandomSampler>(dataset_size, RandomSamplerOptions{.seed = options.seed});
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t dataset_size, int num_replicas, int rank,
                                       DistributedSamplerOptions options)
    : DistributedSampler(sampler_of(dataset_size, options), num_replicas, rank,
                         {.drop_last = options.drop_last, .pad = options.pad}) {}

DistributedSampler::DistributedSampler(std::shared_ptr<const Sampler> sampler, int num_replicas, int rank,
                                       DistributedTail tail)
    : sampler_(std::move(sampler)), num_replicas_(num_replicas), rank_(rank), tail_(tail) {
  check_replica("DistributedSampler", num_replicas, rank);
  check_argument(sampler_ != nullptr, "DistributedSampler: sampler", "nullptr", "a sampler");
  check_argument(
      !tail.drop_last || sampler_->size() >= num_replicas, "DistributedSampler: num_replicas", num_replicas,
      fmt::format("at most {}, or with drop_last nothing is left of {}", sampler_->size(), description()));
}

std::int64_t DistributedSampler::size() const {
  const std::int64_t all = sampler_->size();
  if (tail_.drop_last) return all / num_replicas_;
  return divide_up(tail_.pad ? all : std::max<std::int64_t>(all - rank_, 0), num_replicas_);
}

std::int64_t DistributedSampler::padding() const {
  const bool padded =
      !tail_.drop_last && tail_.pad && rank_ + (size() - 1) * num_replicas_ >= sampler_->size();
  return padded ? 1 : 0;
}

std::int64_t DistributedSampler::total_size() const {
  return tail_.drop_last || tail_.pad ? size() * num_replicas_ : sampler_->size();
}

std::vector<std::int64_t> DistributedSampler::indices(std::int64_t epoch) const {
  const std::vector<std::int64_t> order = order_of(*sampler_, epoch);
  std::vector<std::int64_t> mine(static_cast<std::size_t>(size()));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    // Past the end Python repeats the order from its front, as often as needed.
    const auto place = static_cast<std::size_t>(rank_) + i * static_cast<std::size_t>(num_replicas_);
    mine[i] = order[place < order.size() ? place : place % order.size()];
  }
  return mine;
}

BatchPlan DistributedSampler::plan(std::int64_t epoch, std::int64_t batch_size, bool drop_last) const {
  check_argument(batch_size >= 1, "DistributedSampler: batch_size", batch_size, "at least 1");
  // One more than there are is as many as any larger number, which times the ranks could be too large.
  batch_size = std::min(batch_size, size() + 1);
  const std::int64_t step = batch_size * num_replicas_;
  const std::int64_t batches = drop_last ? total_size() / step : divide_up(size(), batch_size);
  BatchPlan plan;
  plan.indices = indices(epoch);
  plan.indices.resize(static_cast<std::size_t>(std::min(size(), batches * batch_size)));
  plan.offsets = evenly_spaced(batches, batch_size, std::ssize(plan.indices));
  plan.global_offsets = evenly_spaced(batches, step, total_size());
  if (batches == 0 || batches * batch_size < size()) return plan;
  const std::int64_t last = batches - 1;
  if (padding() != 0) {
    plan.padding.resize(static_cast<std::size_t>(batches));
    plan.padding.back() = 1;
  }
  if (!tail_.pad && !tail_.drop_last) {
    plan.weights.resize(static_cast<std::size_t>(batches), 1);
    const std::int64_t of_all = plan.global_offsets.back() - last * step;
    plan.weights.back() =
        static_cast<double>(std::ssize(plan[last]) * num_replicas_) / static_cast<double>(of_all);
  }
  return plan;
}

std::string DistributedSampler::description() const {
  return fmt::format("DistributedSampler({}{})", sampler_->description(),
                     tail_.drop_last ? ", drop_last"
                     : tail_.pad     ? ""
                                     : ", not padded");
}

}  // namespace muster
