#include <algorithm>
#include <fmt/ranges.h>
#include <map>
#include <muster/data_loader.h>
#include <muster/distributed_sampler.h>
#include <muster/job.h>
#include <mutex>
#include <stdexcept>
#include <torch/torch.h>

#include "common/base/check.h"
#include "runtime/data/prefetcher.h"

namespace muster {

namespace {

constexpr std::size_t kNamedExamples = 8;  // in an error message

// The orders of the epochs that are being loaded: two at once where one ends and the next begins. Safe from
// any thread.
class EpochOrders {
 public:
  using Order = std::shared_ptr<const std::vector<std::int64_t>>;
  explicit EpochOrders(DistributedSampler sampler) : sampler_(std::move(sampler)) {}

  Order of(std::int64_t epoch) {
    const std::lock_guard lock(mutex_);
    Order& order = orders_[epoch];
    if (!order) {
      order = std::make_shared<const std::vector<std::int64_t>>(sampler_.indices(epoch));
      orders_.erase(orders_.begin(), orders_.lower_bound(epoch - 1));
    }
    return order;
  }

 private:
  DistributedSampler sampler_;
  std::mutex mutex_;
  std::map<std::int64_t, Order> orders_;
};

void check(bool usable, const char* option, std::int64_t value, const char* right) {
  if (!usable)
    throw std::invalid_argument(fmt::format("DataLoader: {} = {} must be {}", option, value, right));
}

template <class Value>
void check_same(const char* what, const Value& saved, const Value& here) {
  if (saved != here) {
    throw std::invalid_argument(
        fmt::format("the data loader's state is of {} {}, and here it is {}", what, saved, here));
  }
}

}  // namespace

struct DataLoader::State {
  State(const Dataset& a_dataset, const DataLoaderOptions& the_options, int rank, int the_world_size)
      : dataset(a_dataset),
        options(the_options),
        world_size(the_world_size),
        sampler(a_dataset.size(), the_world_size, rank,
                {.shuffle = the_options.shuffle, .seed = the_options.seed}),
        orders(sampler) {}

  std::int64_t batches_per_epoch() const {
    const std::int64_t rounding = options.drop_last ? 0 : options.batch_size - 1;
    return (sampler.size() + rounding) / options.batch_size;
  }
  Batch load(std::int64_t number);
  Batch take(std::int64_t end);

  const Dataset& dataset;
  const DataLoaderOptions options;
  const std::int64_t world_size;
  const DistributedSampler sampler;
  EpochOrders orders;
  std::int64_t consumed = 0;  // batches handed out, over all epochs
  Batch current;
  std::unique_ptr<Prefetcher> prefetcher;  // the last member: its threads use the others
};

// `number` counts over all epochs.
Batch DataLoader::State::load(std::int64_t number) {
  const std::int64_t epoch = number / batches_per_epoch();
  const std::int64_t first = number % batches_per_epoch() * options.batch_size;
  const auto order = orders.of(epoch);
  const auto indices = std::span(*order).subspan(
      static_cast<std::size_t>(first),
      static_cast<std::size_t>(std::min(options.batch_size, sampler.size() - first)));
  try {
    Batch batch = dataset.get_batch(indices);
    if (options.pin_memory && torch::cuda::is_available()) {
      batch = {.data = batch.data.pin_memory(), .target = batch.target.pin_memory()};
    }
    return batch;
  } catch (const std::exception& error) {
    const auto named = indices.first(std::min(indices.size(), kNamedExamples));
    std::throw_with_nested(std::runtime_error(
        fmt::format("epoch {}, batch {} (examples {}{}): {}", epoch, number % batches_per_epoch(),
                    fmt::join(named, ", "), named.size() < indices.size() ? ", ..." : "", error.what())));
  }
}

Batch DataLoader::State::take(std::int64_t end) {
  if (options.num_workers == 0) {
    const at::NoGradGuard no_grad;
    return load(consumed);
  }
  if (!prefetcher || prefetcher->end() != end) {
    prefetcher.reset();
    prefetcher =
        std::make_unique<Prefetcher>([this](std::int64_t number) { return load(number); },
                                     Prefetcher::Range{.first = consumed, .end = end}, options.num_workers,
                                     std::int64_t{options.num_workers} * options.prefetch_factor);
  }
  return prefetcher->take();
}

DataLoader::DataLoader(const Dataset& dataset, DataLoaderOptions options, const Job& job)
    : DataLoader(dataset, options, job.rank(), job.world_size()) {}

DataLoader::DataLoader(const Dataset& dataset, DataLoaderOptions options, int rank, int world_size)
    : state_(std::make_unique<State>(dataset, options, rank, world_size)) {
  check(options.batch_size >= 1, "batch_size", options.batch_size, "at least 1");
  check(options.num_workers >= 0, "num_workers", options.num_workers, "at least 0");
  check(options.prefetch_factor >= 1, "prefetch_factor", options.prefetch_factor, "at least 1");
  if (batches_per_epoch() == 0) {
    throw std::invalid_argument(fmt::format("DataLoader: {} examples for {} ranks give no batch of {}",
                                            dataset.size(), world_size, options.batch_size));
  }
}

DataLoader::~DataLoader() = default;

DataLoader::Epochs DataLoader::epochs(std::int64_t count) {
  return {this, count * batches_per_epoch()};
}

Batch* DataLoader::next(std::int64_t end) {
  if (state_->consumed >= end) return nullptr;
  state_->current = {};  // its memory can go to the next batch
  state_->current = state_->take(end);
  ++state_->consumed;
  return &state_->current;
}

std::int64_t DataLoader::batches_per_epoch() const {
  return state_->batches_per_epoch();
}
std::int64_t DataLoader::epoch() const {
  return std::max<std::int64_t>(state_->consumed - 1, 0) / batches_per_epoch();
}
std::int64_t DataLoader::batch() const {
  return std::max<std::int64_t>(state_->consumed - 1, 0) % batches_per_epoch();
}

DataLoaderState DataLoader::state() const {
  return {.epoch = state_->consumed / batches_per_epoch(),
          .batch = state_->consumed % batches_per_epoch(),
          .batch_size = state_->options.batch_size,
          .world_size = state_->world_size,
          .dataset_size = state_->dataset.size(),
          .shuffle = state_->options.shuffle,
          .seed = state_->options.seed};
}

void DataLoader::check_state(const DataLoaderState& state) const {
  check_same("dataset size", state.dataset_size, state_->dataset.size());
  check_same("shuffle", state.shuffle, state_->options.shuffle);
  if (state.shuffle) check_same("seed", state.seed, state_->options.seed);
  const std::int64_t here = state_->options.batch_size * state_->world_size;
  const std::int64_t place = state.batch * state.batch_size * state.world_size;
  if (state.epoch < 0 || state.batch < 0 || place % here != 0 || place / here > batches_per_epoch()) {
    throw std::invalid_argument(
        fmt::format("the data loader cannot go on at example {} of epoch {}: with {} ranks of batch size {} "
                    "no batch ends there",
                    place, state.epoch, state_->world_size, state_->options.batch_size));
  }
}

void DataLoader::load_state(const DataLoaderState& state) {
  check_state(state);
  stop();
  const std::int64_t place = state.batch * state.batch_size * state.world_size;
  state_->consumed =
      state.epoch * batches_per_epoch() + place / (state_->options.batch_size * state_->world_size);
}

void DataLoader::stop() {
  state_->prefetcher.reset();
}

}  // namespace muster
