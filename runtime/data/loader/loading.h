// The source and the order of a loader's batches, shared by its workers.
//
// Any thread can use a Loading: its state changes only under locks. A worker that hangs keeps the Loading
// alive after the loader has ended.
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

// The order that the loader's options describe.
struct Order {
  // Makes the plan of an epoch. The plan begins at a given place in the epoch. This place must be 0 unless
  // `begins_anywhere` is true. This function is null for an iterable dataset.
  EpochPlans::Make plan;
  std::string description;
  bool begins_anywhere = false;         // a plan can begin at any sample, not only where a batch begins
  std::optional<std::int64_t> batches;  // of each epoch, if the number is known without a plan
  bool takes_long = true;               // a plan takes long to make: it needs the order of the whole epoch
};

// Returns the addresses of the storages of a batch's tensors. is_in_hand() uses them to find out whether a
// tensor belongs to the batch.
std::vector<const void*> memory_of(const std::vector<at::Tensor*>& tensors);

class Loading {
 public:
  // Throws std::invalid_argument if an option cannot be used. The message names the option.
  Loading(std::unique_ptr<detail::BatchSource> source, DataLoaderOptions options, int rank, int world_size);

  // Returns the plan of the ticket's epoch. If there is none yet, this function makes it, or waits until
  // another thread has made it.
  std::shared_ptr<const BatchPlan> plan(const Ticket& of) { return plans_.get(of.epoch, of.first); }
  void make_plan_ahead(std::int64_t epoch);
  std::int64_t batches(const Ticket& of);
  void begin(int worker) const;
  // Loads the batch of a ticket. For an iterable dataset, a result whose count is 0 says that the shard has
  // ended. An error names the batch.
  detail::LoadedBatch load(const Ticket& ticket);
  // Returns a text that describes a batch, for messages. This function never waits. If `indices` is empty,
  // the text names the samples of the batch only if the plan of the epoch has already been made.
  std::string describe(const Ticket& ticket, std::span<const std::int64_t> indices) const;
  std::string describe(const Ticket& ticket);
  bool streams() const { return !source->size(); }  // the dataset is iterable

  const std::unique_ptr<detail::BatchSource> source;
  const DataLoaderOptions options;
  const int rank;
  const int world_size;
  const detail::ShardRange shards;  // for an iterable dataset
  const Order order;

 private:
  PlannedBatch planned(const Ticket& ticket);
  void check_indices(const Ticket& ticket, std::span<const std::int64_t> wanted);
  void pin(detail::LoadedBatch& loaded) const;

  const std::shared_ptr<BatchMemory> memory_;
  EpochPlans plans_;
};

}  // namespace muster
