// What the workers of a loader share: where batches come from, and in which order.
//
// It changes only behind locks, so that it can outlive the loader in a worker that hangs.
#pragma once

#include <functional>
#include <memory>
#include <muster/data/batch_plan.h>
#include <muster/data/data_loader_options.h>
#include <muster/data/detail/batch_source.h>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/loader/batch_memory.h"
#include "runtime/data/loader/prefetcher.h"
#include "runtime/data/order/epoch_plans.h"

namespace muster {

// What the options say of the order, as one thing.
struct Order {
  // Of an epoch from a place in it on, which is 0 unless it may begin anywhere; not of an iterable dataset.
  EpochPlans::Make plan;
  std::string description;
  bool begins_anywhere = false;         // else only where a batch begins
  std::optional<std::int64_t> batches;  // of each epoch, if that is known without a plan
  bool takes_long = true;               // to make a plan; not if its entries are computed
};

// Where the tensors lie, as is_in_hand() asks.
std::vector<const void*> memory_of(const std::vector<at::Tensor*>& tensors);

class Loading {
 public:
  // std::invalid_argument names the option that cannot be used.
  Loading(std::unique_ptr<detail::BatchSource> source, DataLoaderOptions options, int rank, int world_size);

  // Of the epoch that the ticket is of.
  std::shared_ptr<const BatchPlan> plan(const Ticket& of) { return plans_.get(of.epoch, of.first); }
  void make_plan_ahead(std::int64_t epoch);
  std::int64_t batches(const Ticket& of);
  void begin(int worker) const;
  // Of an iterable dataset without a batch if the shard has ended.
  detail::LoadedBatch load(const Ticket& ticket);
  // Waits for nobody. `indices` are those of the batch; without them they are named if its order is made.
  std::string describe(const Ticket& ticket, std::span<const std::int64_t> indices) const;
  std::string describe(const Ticket& ticket);
  bool streams() const { return !source->size(); }  // an iterable dataset

  const std::unique_ptr<detail::BatchSource> source;
  const DataLoaderOptions options;
  const int rank;
  const int world_size;
  const detail::ShardRange shards;  // of an iterable dataset
  const Order order;

 private:
  PlannedBatch planned(const Ticket& ticket);
  void check_indices(const Ticket& ticket, std::span<const std::int64_t> wanted);
  void pin(detail::LoadedBatch& loaded) const;

  const std::shared_ptr<BatchMemory> memory_;
  EpochPlans plans_;
};

}  // namespace muster
