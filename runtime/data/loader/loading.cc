#include "runtime/data/loader/loading.h"

#include <algorithm>
#include <fmt/ranges.h>
#include <muster/data/distributed_sampler.h>
#include <muster/data/elastic_sampler.h>
#include <muster/data/sampler.h>
#include <stdexcept>
#include <torch/torch.h>
#include <utility>

#include "runtime/data/argument.h"
#include "runtime/data/order/order.h"
#include "runtime/rank/uncaught.h"

namespace muster {

namespace {

constexpr std::size_t kNamedSamples = 8;  // in an error message

void exclude(bool both, const char* option, const char* other) {
  if (both)
    throw std::invalid_argument(fmt::format("DataLoader: {} and {} exclude each other", option, other));
}

DataLoaderOptions checked(DataLoaderOptions options) {
  check_argument(options.batch_size >= 1, "DataLoader: batch_size", options.batch_size, "at least 1");
  check_argument(options.global_batch_size >= 0, "DataLoader: global_batch_size", options.global_batch_size,
                 "at least 1, or 0 for none");
  check_argument(options.num_workers >= 0, "DataLoader: num_workers", options.num_workers, "at least 0");
  check_argument(options.timeout.count() >= 0, "DataLoader: timeout", options.timeout.count(),
                 "at least 0 seconds");
  check_argument(options.prefetch_bytes >= 1, "DataLoader: prefetch_bytes", options.prefetch_bytes,
                 "at least 1");
  check_argument(options.shards >= 0, "DataLoader: shards", options.shards,
                 "at least 1, or 0 for one for each worker");
  if (options.prefetch_factor) {
    check_argument(*options.prefetch_factor >= 1, "DataLoader: prefetch_factor", *options.prefetch_factor,
                   "at least 1");
  }
  exclude(options.sampler && options.shuffle, "sampler", "shuffle");
  exclude(options.global_batch_size > 0 && options.batch_size != 1, "global_batch_size", "batch_size");
  exclude(options.global_batch_size > 0 && options.uneven_ranks != UnevenRanks::kPad, "global_batch_size",
          "uneven_ranks");
  if (options.batch_sampler) {
    exclude(options.batch_size != 1, "batch_sampler", "batch_size");
    exclude(options.global_batch_size > 0, "batch_sampler", "global_batch_size");
    exclude(options.shuffle, "batch_sampler", "shuffle");
    exclude(options.sampler != nullptr, "batch_sampler", "sampler");
    exclude(options.drop_last, "batch_sampler", "drop_last");
  }
  if (options.num_workers > 0) return options;
  // Refuses options that need workers, because there are no workers. PyTorch does so, too.
  const auto needs_workers = [](bool set, const char* option) {
    if (set) throw std::invalid_argument(fmt::format("DataLoader: {} needs num_workers above 0", option));
  };
  needs_workers(options.prefetch_factor.has_value(), "prefetch_factor");
  needs_workers(options.persistent_workers, "persistent_workers");
  needs_workers(options.timeout.count() > 0, "timeout");
  return options;
}

// An iterable dataset has its own order. So this function refuses all options that set an order.
void check_streamed(const DataLoaderOptions& options) {
  const auto refuse = [](bool set, const char* option) {
    if (set) {
      throw std::invalid_argument(
          fmt::format("DataLoader: an iterable dataset has its own order, so {} cannot be set", option));
    }
  };
  refuse(options.shuffle, "shuffle");
  refuse(options.sampler != nullptr, "sampler");
  refuse(options.batch_sampler != nullptr, "batch_sampler");
  refuse(options.global_batch_size > 0, "global_batch_size");
  refuse(options.uneven_ranks != UnevenRanks::kPad, "uneven_ranks");
}

Order order_by(ElasticSampler sampler) {
  std::string description = sampler.description();
  return {.plan = [sampler = std::move(sampler)](std::int64_t epoch,
                                                 std::int64_t /*first*/) { return sampler.plan(epoch); },
          .description = std::move(description),
          .batches = std::nullopt};
}

Order order_by(DistributedSampler sampler, const DataLoaderOptions& options) {
  std::string description = sampler.description();
  const std::int64_t batches = sampler.batches(options.batch_size, options.drop_last);
  return {
      .plan = [sampler = std::move(sampler), batch_size = options.batch_size, drop_last = options.drop_last](
                  std::int64_t epoch,
                  std::int64_t first) { return sampler.plan(epoch, batch_size, drop_last, first); },
      .description = std::move(description),
      .begins_anywhere = true,
      .batches = batches};
}

// The user has made a DistributedSampler for the loader. Checks that it fits the loader's rank and options,
// and returns it.
const DistributedSampler& checked_part(const DistributedSampler& part, const DataLoaderOptions& options,
                                       int rank, int world_size) {
  exclude(options.global_batch_size > 0, "global_batch_size", "a DistributedSampler as sampler");
  exclude(options.uneven_ranks != UnevenRanks::kPad && options.uneven_ranks != part.uneven_ranks(),
          "uneven_ranks", "a DistributedSampler with another uneven_ranks");
  if (part.rank() != rank || part.num_replicas() != world_size) {
    throw std::invalid_argument(fmt::format(
        "DataLoader: sampler = {} is the part of rank {} of {}, and the loader is for rank {} of {}",
        part.description(), part.rank(), part.num_replicas(), rank, world_size));
  }
  return part;
}

Order order_by_options(const DataLoaderOptions& options, const detail::BatchSource& source, int rank,
                       int world_size) {
  if (!options.read && !source.nothing())
    throw std::invalid_argument(
        "DataLoader: read = false needs a dataset with indices, and batches that can be empty");
  if (!source.size()) {
    check_streamed(options);
    check_replica("DataLoader", world_size, rank);
    check_argument(options.shards == 0 || options.shards >= world_size, "DataLoader: shards", options.shards,
                   fmt::format("at least {}, one for each rank", world_size));
    return {.plan = nullptr,
            .description = fmt::format("IterableDataset(batch_size {}, seed {}{})", options.batch_size,
                                       options.seed, options.drop_last ? ", drop_last" : ""),
            .batches = std::nullopt};
  }
  if (options.shards > 0)
    throw std::invalid_argument("DataLoader: shards is for iterable datasets, and this dataset has indices");
  const std::int64_t size = *source.size();
  if (options.batch_sampler) return order_by(ElasticSampler(options.batch_sampler, world_size, rank));
  std::shared_ptr<const Sampler> sampler = options.sampler;
  if (const auto* part = dynamic_cast<const DistributedSampler*>(sampler.get()))
    return order_by(checked_part(*part, options, rank, world_size), options);
  if (!sampler && options.shuffle)
    sampler = std::make_shared<RandomSampler>(size, RandomSamplerOptions{.seed = options.seed});
  if (!sampler) sampler = std::make_shared<SequentialSampler>(size);
  if (options.global_batch_size > 0) {
    const auto batches =
        std::make_shared<BatchSampler>(sampler, options.global_batch_size, options.drop_last);
    Order order = order_by(ElasticSampler(batches, world_size, rank));
    order.batches = batches->size();
    order.takes_long = computed(*sampler) == nullptr;
    return order;
  }
  Order order = order_by(DistributedSampler(sampler, world_size, rank, options.uneven_ranks), options);
  order.takes_long = computed(*sampler) == nullptr;
  return order;
}

}  // namespace

std::vector<const void*> memory_of(const std::vector<at::Tensor*>& tensors) {
  std::vector<const void*> memory;
  for (const at::Tensor* each : tensors)
    if (each->defined() && each->has_storage()) memory.push_back(each->storage().unsafeGetStorageImpl());
  return memory;
}

Loading::Loading(std::unique_ptr<detail::BatchSource> the_source, DataLoaderOptions the_options, int the_rank,
                 int the_world_size)
    : source(std::move(the_source)),
      options(checked(std::move(the_options))),
      rank(the_rank),
      world_size(the_world_size),
      shards(detail::shards_of(options, rank, world_size)),
      order(order_by_options(options, *source, rank, world_size)),
      memory_(std::make_shared<BatchMemory>(static_cast<std::size_t>(options.prefetch_bytes))),
      plans_(order.plan) {}

void Loading::make_plan_ahead(std::int64_t epoch) {
  if (order.takes_long) plans_.make_ahead(epoch);
}

std::int64_t Loading::batches(const Ticket& of) {
  return order.batches && of.first == 0 ? *order.batches : plan(of)->size();
}

void Loading::begin(int worker) const {
  detail::set_worker_info({.id = worker,
                           .num_workers = options.num_workers,
                           .rank = rank,
                           .world_size = world_size,
                           .seed = options.seed});
  if (!options.worker_init_fn || options.num_workers == 0 || !options.read) return;
  try {
    options.worker_init_fn(worker);
  } catch (...) {
    std::throw_with_nested(std::runtime_error(
        fmt::format("DataLoader: worker_init_fn of worker {} of {} for {} has failed: {}", worker,
                    options.num_workers, source->name(), current_exception_text())));
  }
}

PlannedBatch Loading::planned(const Ticket& ticket) {
  if (!streams()) return (*plan(ticket))[ticket.batch];
  PlannedBatch planned;
  for (std::int64_t i = 0; i < options.batch_size; ++i) {
    planned.indices.push_back((ticket.batch * options.batch_size + i) * shards.count + shards.first +
                              ticket.shard);
  }
  return planned;
}

detail::LoadedBatch Loading::load(const Ticket& ticket) {
  PlannedBatch wanted = planned(ticket);
  if (!streams()) check_indices(ticket, wanted.indices);
  if (!options.read) {
    const std::int64_t count = std::ssize(wanted.indices);
    return {.batch = source->nothing(),
            .tensors = {},
            .planned = std::move(wanted),
            .skipped = {},
            .count = count};
  }
  const bool pinned = options.pin_memory && torch::cuda::is_available();
  try {
    const UseBatchMemory use(memory_, pinned);
    const detail::ReadBatch reading(options.seed, ticket.epoch, wanted.places);
    detail::LoadedBatch loaded = source->load(ticket.epoch, wanted.indices, options.bad_sample);
    if (loaded.count == 0) return loaded;
    if (!loaded.batch) throw std::runtime_error("none of its samples can be read");
    if (pinned) pin(loaded);
    loaded.planned = std::move(wanted);
    return loaded;
  } catch (...) {
    const std::string why = current_exception_text();
    const bool named = streams() && why.contains(source->name());  // do not repeat a long path
    std::throw_with_nested(std::runtime_error(
        fmt::format("{}{}: {}", named ? "" : source->name() + ": ", describe(ticket, wanted.indices), why)));
  }
}

// Checks the indices that the sampler gave, because a dataset need not check them. A wrong index is an error
// even if the loader skips bad samples. It shows that the sampler was made for another dataset.
void Loading::check_indices(const Ticket& ticket, std::span<const std::int64_t> wanted) {
  const std::int64_t size = *source->size();
  const auto outside =
      std::ranges::find_if(wanted, [size](std::int64_t index) { return index < 0 || index >= size; });
  if (outside == wanted.end()) return;
  throw std::out_of_range(fmt::format("{}: {}: the sampler gave the index {}, and the dataset has {} samples",
                                      source->name(), describe(ticket, wanted), *outside, size));
}

// Copies tensors into page-locked memory, unless batch_empty() has already put them there.
void Loading::pin(detail::LoadedBatch& loaded) const {
  for (at::Tensor* tensor : loaded.tensors) {
    if (tensor->defined() && tensor->is_cpu() && !tensor->is_pinned()) *tensor = tensor->pin_memory();
  }
}

std::string Loading::describe(const Ticket& ticket, std::span<const std::int64_t> indices) const {
  if (streams()) {
    return fmt::format("epoch {}, batch {} of shard {} of {}", ticket.epoch, ticket.batch,
                       shards.first + ticket.shard, shards.count);
  }
  const auto named = indices.first(std::min(indices.size(), kNamedSamples));
  return fmt::format("epoch {}, batch {} (samples {}{})", ticket.epoch, ticket.batch, fmt::join(named, ", "),
                     named.size() < indices.size() ? ", ..." : "");
}

std::string Loading::describe(const Ticket& ticket) {
  if (streams()) return describe(ticket, {});
  const auto plan = plans_.made(ticket.epoch, ticket.first);
  if (!plan)
    return fmt::format("epoch {}, batch {} (its order is still being made)", ticket.epoch, ticket.batch);
  return describe(ticket, (*plan)[ticket.batch].indices);
}

namespace detail {

ShardRange shards_of(const DataLoaderOptions& options, int rank, int world_size) {
  if (world_size < 1) return {};  // check_replica() refuses it a moment later
  const std::int64_t workers = std::max(options.num_workers, 1);
  const std::int64_t count = options.shards > 0 ? options.shards : world_size * workers;
  const std::int64_t first = count * rank / world_size;
  return {.first = first, .mine = count * (rank + 1) / world_size - first, .count = count};
}

void rethrow_bad_sample_of_shard(const std::string& dataset, std::int64_t index, std::int64_t shards) {
  const std::string shard = fmt::format("shard {} of {}", index % shards, shards);
  const bool named = current_exception_text().contains(dataset);
  rethrow_bad_sample(named ? shard : fmt::format("{} of {}", shard, dataset), index / shards);
}

}  // namespace detail

}  // namespace muster
