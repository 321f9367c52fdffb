#include <algorithm>
#include <fmt/format.h>
#include <muster/data/batch_sampler.h>

#include "runtime/data/argument.h"
#include "runtime/data/order/order.h"

namespace muster {

BatchSampler::BatchSampler(std::shared_ptr<const Sampler> sampler, std::int64_t batch_size, bool drop_last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
  check_argument(sampler_ != nullptr, "BatchSampler: sampler", "nullptr", "a sampler");
  check_of_all_ranks("BatchSampler", *sampler_);
  check_argument(batch_size >= 1, "BatchSampler: batch_size", batch_size, "at least 1");
  check_argument(!drop_last || batch_size <= sampler_->size(), "BatchSampler: batch_size", batch_size,
                 fmt::format("at most {}, or with drop_last nothing is left of {}", sampler_->size(),
                             sampler_->description()));
}

std::int64_t BatchSampler::size() const {
  return drop_last_ ? sampler_->size() / batch_size_ : divide_up(sampler_->size(), batch_size_);
}

std::int64_t BatchSampler::entries() const {
  return drop_last_ ? size() * batch_size_ : sampler_->size();
}

const ComputedSampler* BatchSampler::computed() const {
  return muster::computed(*sampler_);
}

IndexBatches BatchSampler::batches(std::int64_t epoch) const {
  IndexBatches all{.indices = order_of(*sampler_, epoch),
                   .offsets = evenly_spaced(size(), batch_size_, sampler_->size())};
  all.indices.resize(static_cast<std::size_t>(entries()));
  return all;
}

std::string BatchSampler::description() const {
  return fmt::format("BatchSampler({}, batch_size {}{})", sampler_->description(), batch_size_,
                     drop_last_ ? ", drop_last" : "");
}

}  // namespace muster
