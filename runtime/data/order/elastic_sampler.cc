#include <algorithm>
#include <fmt/format.h>
#include <muster/data/elastic_sampler.h>
#include <stdexcept>

#include "runtime/data/argument.h"
#include "runtime/data/order/order.h"

namespace muster {

namespace {

// Returns the batches of an epoch. Checks them, because the sampler can be a user's class.
IndexBatches checked_batches(const BatchSamplerBase& sampler, std::int64_t epoch) {
  IndexBatches batches = sampler.batches(epoch);
  const auto& offsets = batches.offsets;
  if (offsets.size() < 2 || offsets.front() != 0 || offsets.back() != std::ssize(batches.indices) ||
      std::ranges::adjacent_find(offsets, std::ranges::greater_equal()) != offsets.end()) {
    throw std::invalid_argument(
        fmt::format("{}: batches({}) gave offsets that do not rise from 0 to its {} indices",
                    sampler.description(), epoch, batches.indices.size()));
  }
  return batches;
}

}  // namespace

ElasticSampler::ElasticSampler(std::shared_ptr<const BatchSamplerBase> batches, int num_replicas, int rank)
    : batches_(std::move(batches)), num_replicas_(num_replicas), rank_(rank) {
  check_replica("ElasticSampler", num_replicas, rank);
  check_argument(batches_ != nullptr, "ElasticSampler: batches", "nullptr", "a batch sampler");
  if (const auto* even = dynamic_cast<const BatchSampler*>(batches_.get()))
    check_largest(std::min(even->batch_size(), even->entries()));
}

// Returns this rank's part of a batch. The whole batch, over all ranks, has `of_all` samples. It begins at
// place `first` of the epoch's order. `index` turns a place in this order into an index of the dataset.
PlannedBatch ElasticSampler::share(std::int64_t first, std::int64_t of_all,
                                   const std::function<std::int64_t(std::int64_t place)>& index) const {
  const Range mine = range_in(of_all);
  PlannedBatch planned;
  planned.weight = static_cast<double>(mine.count * num_replicas_) / static_cast<double>(of_all);
  if (mine.count == 0) {  // this rank reads one sample, with weight 0
    planned.padding = 1;
    planned.places.push_back(first);
  }
  for (std::int64_t i = 0; i < mine.count; ++i) planned.places.push_back(first + mine.first + i);
  for (const std::int64_t place : planned.places) planned.indices.push_back(index(place));
  return planned;
}

// Returns which places of a batch belong to this rank. The batch has `of_all` samples. If the ranks cannot
// have equal shares, the lower ranks have one sample more.
ElasticSampler::Range ElasticSampler::range_in(std::int64_t of_all) const {
  const std::int64_t least = of_all / num_replicas_;
  const std::int64_t more = of_all % num_replicas_;  // how many ranks get one more
  return {.first = rank_ * least + std::min(rank_, more), .count = least + (rank_ < more ? 1 : 0)};
}

void ElasticSampler::check_largest(std::int64_t largest) const {
  check_argument(largest >= num_replicas_, "ElasticSampler: num_replicas", num_replicas_,
                 fmt::format("at most {}, the size of the largest batch of {}, or some ranks get no example",
                             largest, batches_->description()));
}

BatchPlan ElasticSampler::plan(std::int64_t epoch) const {
  const auto* even = dynamic_cast<const BatchSampler*>(batches_.get());
  if (even != nullptr && even->computed() != nullptr) return computed_plan(epoch, *even);
  const IndexBatches batches = checked_batches(*batches_, epoch);
  struct Mine {
    std::vector<std::int64_t> global_offsets;
    std::vector<std::int64_t> indices;  // this rank's shares of all batches, in order
    std::vector<std::int64_t> offsets;
  };
  auto mine = std::make_shared<Mine>();
  std::int64_t largest = 0;
  for (std::int64_t number = 0; number < batches.size(); ++number) {
    const auto batch = batches[number];
    mine->offsets.push_back(std::ssize(mine->indices));
    const auto of_batch = [&](std::int64_t place) { return batch[static_cast<std::size_t>(place)]; };
    const std::vector<std::int64_t> entries = share(0, std::ssize(batch), of_batch).indices;
    mine->indices.insert(mine->indices.end(), entries.begin(), entries.end());
    largest = std::max(largest, std::ssize(batch));
  }
  check_largest(largest);
  mine->global_offsets = batches.offsets;
  const auto consumed_before = [mine](std::int64_t number) {
    return mine->global_offsets[static_cast<std::size_t>(number)];
  };
  const auto batch = [self = *this, mine, consumed_before](std::int64_t number) {
    const std::int64_t first = consumed_before(number);
    const std::int64_t of_all = consumed_before(number + 1) - first;
    const Range range = self.range_in(of_all);
    const std::int64_t my_first = range.count == 0 ? first : first + range.first;
    return self.share(first, of_all, [&](std::int64_t place) {
      return mine->indices[static_cast<std::size_t>(mine->offsets[static_cast<std::size_t>(number)] + place -
                                                    my_first)];
    });
  };
  return {batches.size(), batch, consumed_before};
}

// Returns a plan that computes each entry only when it is needed. So there is no list of the whole order.
BatchPlan ElasticSampler::computed_plan(std::int64_t epoch, const BatchSampler& batches) const {
  const auto consumed_before = [step = batches.batch_size(), end = batches.entries()](std::int64_t number) {
    return number >= divide_up(end, step) ? end : number * step;
  };
  const auto batch = [self = *this, epoch, each = batches.computed(), consumed_before](std::int64_t number) {
    const std::int64_t first = consumed_before(number);
    return self.share(first, consumed_before(number + 1) - first,
                      [&](std::int64_t place) { return each->index(epoch, place); });
  };
  return {batches.size(), batch, consumed_before};
}

std::string ElasticSampler::description() const {
  return fmt::format("ElasticSampler({})", batches_->description());
}

}  // namespace muster
