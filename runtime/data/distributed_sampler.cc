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
    : DistributedSampler(sampler_of(dataset_size, options), num_replicas, rank, options.uneven_ranks) {}

DistributedSampler::DistributedSampler(std::shared_ptr<const Sampler> sampler, int num_replicas, int rank,
                                       UnevenRanks uneven_ranks)
    : sampler_(std::move(sampler)), num_replicas_(num_replicas), rank_(rank), uneven_ranks_(uneven_ranks) {
  check_replica("DistributedSampler", num_replicas, rank);
  check_argument(sampler_ != nullptr, "DistributedSampler: sampler", "nullptr", "a sampler");
  check_of_all_ranks("DistributedSampler", *sampler_);
  check_argument(uneven_ranks != UnevenRanks::kDrop || sampler_->size() >= num_replicas,
                 "DistributedSampler: num_replicas", num_replicas,
                 fmt::format("at most {}, or with UnevenRanks::kDrop nothing is left of {}", sampler_->size(),
                             description()));
}

std::int64_t DistributedSampler::size() const {
  const std::int64_t all = sampler_->size();
  switch (uneven_ranks_) {
    case UnevenRanks::kPad: return divide_up(all, num_replicas_);
    case UnevenRanks::kDrop: return all / num_replicas_;
    case UnevenRanks::kKeep: return divide_up(std::max<std::int64_t>(all - rank_, 0), num_replicas_);
  }
  return 0;
}

std::int64_t DistributedSampler::padding() const {
  const bool padded =
      uneven_ranks_ == UnevenRanks::kPad && rank_ + (size() - 1) * num_replicas_ >= sampler_->size();
  return padded ? 1 : 0;
}

std::int64_t DistributedSampler::total_size() const {
  return uneven_ranks_ == UnevenRanks::kKeep ? sampler_->size() : size() * num_replicas_;
}

// What stands at a place of this rank's, of which there are `count`. An order that is not computed is made
// here, and what other ranks take of it is not kept.
std::function<std::int64_t(std::int64_t place)> DistributedSampler::lookup(std::int64_t epoch,
                                                                           std::int64_t count) const {
  // Past the end Python repeats the order from its front, as often as needed.
  if (const ComputedSampler* each = computed(*sampler_)) {
    return [each, sampler = sampler_, epoch, size = sampler_->size()](std::int64_t place) {
      return each->index(epoch, place % size);
    };
  }
  const std::vector<std::int64_t> order = order_of(*sampler_, epoch);
  const auto mine = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < mine->size(); ++i) {
    const auto place = static_cast<std::size_t>(rank_) + i * static_cast<std::size_t>(num_replicas_);
    (*mine)[i] = order[place < order.size() ? place : place % order.size()];
  }
  return [mine, rank = rank_, num_replicas = num_replicas_](std::int64_t place) {
    return (*mine)[static_cast<std::size_t>((place - rank) / num_replicas)];
  };
}

// `count` of this rank's from its `first` on.
PlannedBatch DistributedSampler::entries(std::int64_t first, std::int64_t count,
                                         const std::function<std::int64_t(std::int64_t place)>& index) const {
  PlannedBatch planned;
  planned.indices.reserve(static_cast<std::size_t>(count));
  planned.places.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = first; i < first + count; ++i) {
    planned.places.push_back(rank_ + i * num_replicas_);
    planned.indices.push_back(index(planned.places.back()));
  }
  return planned;
}

std::vector<std::int64_t> DistributedSampler::indices(std::int64_t epoch) const {
  return entries(0, size(), lookup(epoch, size())).indices;
}

std::int64_t DistributedSampler::batches(std::int64_t batch_size, bool drop_last) const {
  check_argument(batch_size >= 1, "DistributedSampler: batch_size", batch_size, "at least 1");
  batch_size = std::min(batch_size, size() + 1);
  return drop_last ? total_size() / (batch_size * num_replicas_) : divide_up(size(), batch_size);
}

BatchPlan DistributedSampler::plan(std::int64_t epoch, std::int64_t batch_size, bool drop_last) const {
  const std::int64_t count = batches(batch_size, drop_last);
  // One more than there are is as many as any larger number, which times the ranks could be too large.
  batch_size = std::min(batch_size, size() + 1);
  const std::int64_t step = batch_size * num_replicas_;
  const std::int64_t used = std::min(size(), count * batch_size);  // of this rank's entries
  const auto consumed_before = [step, total = total_size()](std::int64_t number) {
    return std::min(number * step, total);
  };
  const auto batch = [self = *this, index = lookup(epoch, used), batch_size, used,
                      consumed_before](std::int64_t number) {
    const std::int64_t first = number * batch_size;
    PlannedBatch planned = self.entries(first, std::min(batch_size, used - first), index);
    if (first + std::ssize(planned.indices) == self.size()) planned.padding = self.padding();
    if (self.uneven_ranks_ == UnevenRanks::kKeep) {
      const std::int64_t of_all = consumed_before(number + 1) - consumed_before(number);
      planned.weight =
          static_cast<double>(std::ssize(planned.indices) * self.num_replicas_) / static_cast<double>(of_all);
    }
    return planned;
  };
  return {count, batch, consumed_before};
}

std::string DistributedSampler::description() const {
  const auto tail = [this] {
    switch (uneven_ranks_) {
      case UnevenRanks::kPad: return "";
      case UnevenRanks::kDrop: return ", drop_last";
      case UnevenRanks::kKeep: return ", not padded";
    }
    return "";
  };
  return fmt::format("DistributedSampler({}{})", sampler_->description(), tail());
}

}  // namespace muster
