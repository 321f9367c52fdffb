#include <algorithm>
#include <fmt/core.h>
#include <muster/elastic_sampler.h>
#include <stdexcept>

#include "runtime/data/argument.h"
#include "runtime/data/order.h"

namespace muster {

namespace {

// The batches of an epoch, of which somebody else's class may have made something else.
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
}

BatchPlan ElasticSampler::plan(std::int64_t epoch) const {
  IndexBatches batches = checked_batches(*batches_, epoch);
  BatchPlan plan;
  plan.indices.reserve(batches.indices.size() / static_cast<std::size_t>(num_replicas_) +
                       static_cast<std::size_t>(batches.size()));
  plan.offsets.reserve(batches.offsets.size());
  std::int64_t largest = 0;
  for (std::int64_t number = 0; number < batches.size(); ++number) {
    const auto batch = batches[number];
    const std::int64_t least = std::ssize(batch) / num_replicas_;
    const std::int64_t more = std::ssize(batch) % num_replicas_;  // ranks with one more
    const std::int64_t count = least + (rank_ < more ? 1 : 0);
    const auto place = static_cast<std::size_t>(number);
    if (more != 0) {
      plan.weights.resize(static_cast<std::size_t>(batches.size()), 1);
      plan.weights[place] = static_cast<double>(count * num_replicas_) / static_cast<double>(batch.size());
    }
    if (count == 0) {
      plan.padding.resize(static_cast<std::size_t>(batches.size()));
      plan.padding[place] = 1;
      plan.indices.push_back(batch.front());
    } else {
      const auto first = batch.begin() + rank_ * least + std::min(rank_, more);
      plan.indices.insert(plan.indices.end(), first, first + count);
    }
    plan.offsets.push_back(std::ssize(plan.indices));
    largest = std::max(largest, std::ssize(batch));
  }
  check_argument(largest >= num_replicas_, "ElasticSampler: num_replicas", num_replicas_,
                 fmt::format("at most {}, the examples of the largest batch of {}, or ranks have none",
                             largest, batches_->description()));
  plan.global_offsets = std::move(batches.offsets);
  return plan;
}

std::string ElasticSampler::description() const {
  return fmt::format("ElasticSampler({})", batches_->description());
}

}  // namespace muster
