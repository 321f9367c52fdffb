#include <algorithm>
#include <fmt/format.h>
#include <muster/data/distributed_sampler.h>

#include "runtime/data/argument.h"
#include "runtime/data/order/order.h"

namespace muster {

namespace {

std::shared_ptr<const Sampler> sampler_of(std::int64_t dataset_size,
                                          const DistributedSamplerOptions& options) {
  check_argument(dataset_size >= 1, "DistributedSampler: dataset_size", dataset_size, "at least 1");
  if (!options.shuffle) return std::make_shared<SequentialSampler>(dataset_size);
  return std::make_shared<RandomSampler>(dataset_size, RandomSamplerOptions{.seed = options.seed});
}

UnevenRanks uneven_ranks_of(const DistributedSamplerOptions& options) {
  if (!options.drop_last) return options.uneven_ranks;
  check_argument(options.uneven_ranks != UnevenRanks::kKeep, "DistributedSampler: uneven_ranks",
                 "UnevenRanks::kKeep", "UnevenRanks::kDrop with drop_last, or left out");
  return UnevenRanks::kDrop;
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t dataset_size, int num_replicas, int rank,
                                       DistributedSamplerOptions options)
    : DistributedSampler(sampler_of(dataset_size, options), num_replicas, rank, uneven_ranks_of(options)) {}

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

std::int64_t DistributedSampler::size_from(std::int64_t first) const {
  const std::int64_t all = sampler_->size() - first;
  switch (uneven_ranks_) {
    case UnevenRanks::kPad: return divide_up(all, num_replicas_);
    case UnevenRanks::kDrop: return all / num_replicas_;
    case UnevenRanks::kKeep: return divide_up(std::max<std::int64_t>(all - rank_, 0), num_replicas_);
  }
  return 0;
}

std::int64_t DistributedSampler::end_from(std::int64_t first) const {
  return uneven_ranks_ == UnevenRanks::kKeep ? sampler_->size() : first + size_from(first) * num_replicas_;
}

std::int64_t DistributedSampler::size() const {
  return size_from(0);
}

std::int64_t DistributedSampler::padding() const {
  return end_from(0) - num_replicas_ + rank_ >= sampler_->size() ? 1 : 0;
}

// Returns a function that gives the index of the sample at a place of the epoch. The function can be called
// for `count` places of this rank, beginning with its first place at or after `first`. If the sampler can
// compute single entries of its order, each call computes one entry. Otherwise lookup() makes the whole order
// and keeps the entries of this rank.
DistributedSampler::Lookup DistributedSampler::lookup(std::int64_t epoch, std::int64_t first,
                                                      std::int64_t count) const {
  // A place can be beyond the end of the order. Then the order begins again, as often as needed, as in
  // PyTorch.
  if (const ComputedSampler* each = computed(*sampler_)) {
    return [each, sampler = sampler_, epoch, size = sampler_->size()](std::int64_t place) {
      return each->index(epoch, place % size);
    };
  }
  const std::vector<std::int64_t> order = order_of(*sampler_, epoch);
  const std::int64_t my_first = first + rank_;
  const auto mine = std::make_shared<std::vector<std::int64_t>>(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < mine->size(); ++i) {
    const auto place = static_cast<std::size_t>(my_first) + i * static_cast<std::size_t>(num_replicas_);
    (*mine)[i] = order[place < order.size() ? place : place % order.size()];
  }
  return [mine, my_first, num_replicas = num_replicas_](std::int64_t place) {
    return (*mine)[static_cast<std::size_t>((place - my_first) / num_replicas)];
  };
}

std::vector<std::int64_t> DistributedSampler::indices(std::int64_t epoch) const {
  const Lookup index = lookup(epoch, 0, size());
  std::vector<std::int64_t> all(static_cast<std::size_t>(size()));
  for (std::int64_t i = 0; i < size(); ++i)
    all[static_cast<std::size_t>(i)] = index(rank_ + i * num_replicas_);
  return all;
}

std::int64_t DistributedSampler::batches_from(std::int64_t first, std::int64_t batch_size,
                                              bool drop_last) const {
  check_argument(batch_size >= 1, "DistributedSampler: batch_size", batch_size, "at least 1");
  batch_size = std::min(batch_size, size_from(first) + 1);
  return drop_last ? (end_from(first) - first) / (batch_size * num_replicas_)
                   : divide_up(size_from(first), batch_size);
}

std::int64_t DistributedSampler::batches(std::int64_t batch_size, bool drop_last) const {
  return batches_from(0, batch_size, drop_last);
}

BatchPlan DistributedSampler::plan(std::int64_t epoch, std::int64_t batch_size, bool drop_last,
                                   std::int64_t first) const {
  check_argument(first >= 0 && first < sampler_->size(), "DistributedSampler: first", first,
                 fmt::format("from 0 to {}", sampler_->size() - 1));
  const std::int64_t count = batches_from(first, batch_size, drop_last);
  const std::int64_t size = size_from(first);
  // The batch size is limited, because its product with the number of ranks must not overflow. The limit is
  // not `size` but `size + 1`. With drop_last, a batch size larger than `size` must give no batch.
  batch_size = std::min(batch_size, size + 1);
  const std::int64_t used = std::min(size, count * batch_size);  // of this rank's entries
  const auto consumed_before = [first, step = batch_size * num_replicas_, end = end_from(first)](
                                   std::int64_t number) { return std::min(first + number * step, end); };
  const auto batch = [self = *this, index = lookup(epoch, first, used), first, batch_size, used,
                      consumed_before](std::int64_t number) {
    PlannedBatch planned;
    planned.places.reserve(static_cast<std::size_t>(batch_size));
    planned.indices.reserve(static_cast<std::size_t>(batch_size));
    const std::int64_t end = std::min((number + 1) * batch_size, used);
    for (std::int64_t i = number * batch_size; i < end; ++i) {
      planned.places.push_back(first + self.rank_ + i * self.num_replicas_);
      planned.indices.push_back(index(planned.places.back()));
    }
    if (self.uneven_ranks_ == UnevenRanks::kKeep) {
      const std::int64_t of_all = consumed_before(number + 1) - consumed_before(number);
      planned.weight =
          static_cast<double>(std::ssize(planned.indices) * self.num_replicas_) / static_cast<double>(of_all);
    } else if (planned.places.back() >= self.sampler_->size()) {
      planned.padding = 1;
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
