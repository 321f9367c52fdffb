// What the workers of a loader share: where batches come from, and in which order.
//
// Nothing in it changes but under a lock, so that it can outlive the loader in a worker that hangs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <muster/batch_plan.h>
#include <muster/data_loader_options.h>
#include <muster/detail/batch_source.h>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/batch_memory.h"
#include "runtime/data/prefetcher.h"

namespace muster {

// What the options say of the order, as one thing.
struct Order {
  std::function<BatchPlan(std::int64_t epoch)> plan;  // not of an iterable dataset
  std::string description;
};

class Loading {
 public:
  // std::invalid_argument names the option that cannot be used.
  Loading(std::unique_ptr<detail::BatchSource> source, DataLoaderOptions options, int rank, int world_size);

  std::shared_ptr<const BatchPlan> plan(std::int64_t epoch);
  void begin(int worker) const;
  // Of an iterable dataset without a batch if the shard has ended.
  detail::LoadedBatch load(const Ticket& ticket);
  std::vector<std::int64_t> indices(const Ticket& ticket);
  std::string describe(const Ticket& ticket);

  // Of an iterable dataset: of the tickets that were loaded, those for which there was nothing. Each once.
  bool streams() const { return !source->size(); }
  std::vector<Ticket> take_ends();

  const std::unique_ptr<detail::BatchSource> source;
  const DataLoaderOptions options;
  const int rank;
  const int world_size;
  const detail::ShardRange shards;  // of an iterable dataset
  const Order order;

 private:
  void check_indices(const Ticket& ticket, std::span<const std::int64_t> wanted);
  void pin(detail::LoadedBatch& loaded) const;

  const std::shared_ptr<BatchMemory> memory_;
  std::mutex mutex_;
  std::vector<Ticket> ends_;
  std::map<std::int64_t, std::shared_ptr<const BatchPlan>>
      plans_;  // two at once where one epoch ends and the next begins
};

}  // namespace muster
