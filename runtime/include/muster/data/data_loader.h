// Loads batches of a dataset for this rank, in threads and ahead of the loop. The order of the batches
// depends only on the seed, the epoch and the number of ranks.
//
//   muster::DataLoader loader(dataset, {.batch_size = 64, .shuffle = true, .num_workers = 4}, job);
//   for (auto& batch : loader.epochs(10)) { ...; checkpoints.step(state); }
//
// This loop continues to the end of the tenth epoch from wherever the loader is: the beginning, the place
// where an earlier loop stopped, or a loaded state. As in PyTorch,
//
//   for (auto epoch = loader.epoch(); epoch < 10; ++epoch)
//     for (auto& batch : loader) { ... }
//
// runs one loop per epoch. Each loop starts an epoch from its beginning. After a loop that was left in the
// middle of its epoch, the next loop starts the next epoch. After load_state() the first loop runs the rest
// of the loaded epoch. The number of workers does not change the batches. Options have PyTorch's names,
// defaults and meaning; docs/data.md lists the differences.
//
// If a dataset throws, the loop throws std::runtime_error, which names the dataset, the epoch, the batch and
// the sample, with the original nested in it. After any error the loader stays at the batch that failed, and
// state() is the place before this batch. The next loop tries the batch again, unless the program has called
// skip_failed_batch(). Only one thread, the training thread, may use a loader. A loader neither copies nor
// owns its dataset.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <muster/comm/group.h>
#include <muster/comm/job.h>
#include <muster/data/dataset.h>
#include <muster/data/detail/loader_engine.h>
#include <muster/data/iterable_dataset.h>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {

// The part of a loader that does not depend on the types of samples and batches.
class AnyDataLoader {
 public:
  virtual ~AnyDataLoader() = default;
  AnyDataLoader(const AnyDataLoader&) = delete;
  AnyDataLoader& operator=(const AnyDataLoader&) = delete;

  // The rank and world size given to the constructor.
  int rank() const { return engine_.share().first; }
  int world_size() const { return engine_.share().second; }
  // Returns the number of batches in the epoch that epoch() names. Different epochs can have different
  // numbers. For an iterable dataset, throws std::logic_error.
  std::int64_t batches_per_epoch() const { return engine_.batches_per_epoch(); }
  // Returns the epoch, from 0, of the batch that the loop took last. Before a loop, after a loop that ran to
  // its end, and after load_state(), returns the epoch of the next batch.
  std::int64_t epoch() const { return engine_.epoch(); }
  std::int64_t batch() const { return engine_.info().batch; }  // that batch's place in the epoch, from 0
  // Describes the batch that the loop has.
  const BatchInfo& info() const { return engine_.info(); }

  DataLoaderState state() const { return engine_.state(); }
  // Continues from `state`. The call itself reads no data.
  // - If the number of ranks or batch_size has changed, the loader divides the rest of the epoch anew, so
  //   each sample is still used once. Rank 0 reports the change in one line.
  // - A global_batch_size must not change, so the batches do not change either.
  // - An iterable dataset needs as many shards as before, except at the start of an epoch; its readers skip
  //   the samples that were consumed.
  // If the state does not fit, throws std::invalid_argument, which says why. The loader is then unchanged.
  void load_state(const DataLoaderState& state) { engine_.load_state(state); }
  // Throws what load_state() would throw.
  void check_state(const DataLoaderState& state) const { engine_.check_state(state); }

  // After an error in a loop, makes the next loop start after the batch that failed, so this rank does not
  // train on it. The other ranks would wait for this rank in that step. So either all ranks call
  // skip_failed_batch(), or they train inside DistributedDataParallel::join(). Throws std::logic_error if the
  // last loop did not fail in a batch.
  void skip_failed_batch() { engine_.skip_failed_batch(); }

  // Ends the workers and joins their threads. The next loop starts new workers, and continues at the same
  // place.
  void stop() { engine_.stop(); }

 protected:
  AnyDataLoader(std::unique_ptr<detail::BatchSource> source, DataLoaderOptions options, int rank,
                int world_size)
      : engine_(std::move(source), std::move(options), rank, world_size) {}
  detail::LoaderEngine engine_;
};

template <class Sample = Example, class BatchType = Collated<Sample>>
class DataLoader : public AnyDataLoader {
 public:
  using CollateFunction = std::function<BatchType(std::vector<Sample>)>;

  // Throws std::invalid_argument, which names the option that cannot be used. `dataset` must outlive the
  // loader. Without `collate_fn` batches come from dataset.get_batch(). Several threads call `collate_fn`.
  DataLoader(const Dataset<Sample>& dataset, DataLoaderOptions options, int rank, int world_size,
             CollateFunction collate_fn = nullptr)
      : AnyDataLoader(
            std::make_unique<detail::TypedSource<Sample, BatchType>>(dataset, std::move(collate_fn)),
            std::move(options), rank, world_size) {}
  DataLoader(const Dataset<Sample>& dataset, DataLoaderOptions options, const Group& group,
             CollateFunction collate_fn = nullptr)
      : DataLoader(dataset, std::move(options), group.rank(), group.size(), std::move(collate_fn)) {}
  // One worker reads each shard. The loader takes batches from the shards in turn, and leaves out shards that
  // have ended. So ranks can have different numbers of batches.
  DataLoader(const IterableDataset<Sample>& dataset, const DataLoaderOptions& options, int rank,
             int world_size, CollateFunction collate_fn = nullptr)
      : AnyDataLoader(
            std::make_unique<detail::StreamSource<Sample, BatchType>>(
                dataset, std::move(collate_fn), options, detail::shards_of(options, rank, world_size)),
            options, rank, world_size) {}
  DataLoader(const IterableDataset<Sample>& dataset, const DataLoaderOptions& options, const Group& group,
             CollateFunction collate_fn = nullptr)
      : DataLoader(dataset, options, group.rank(), group.size(), std::move(collate_fn)) {}
  DataLoader(const Dataset<Sample>&&, DataLoaderOptions, const Group&, CollateFunction = nullptr) = delete;
  DataLoader(const Dataset<Sample>&&, DataLoaderOptions, int, int, CollateFunction = nullptr) = delete;
  DataLoader(const IterableDataset<Sample>&&, DataLoaderOptions, const Group&,
             CollateFunction = nullptr) = delete;
  DataLoader(const IterableDataset<Sample>&&, DataLoaderOptions, int, int,
             CollateFunction = nullptr) = delete;

  class Iterator {
   public:
    using value_type = BatchType;
    using difference_type = std::ptrdiff_t;
    Iterator(DataLoader* loader, std::int64_t end)
        : loader_(loader), end_(end), loop_(loader->engine_.begin_loop()) {
      ++*this;
    }
    BatchType& operator*() const { return *batch_; }
    Iterator& operator++() {
      batch_ = static_cast<BatchType*>(loader_->engine_.next(end_, loop_));
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return batch_ == nullptr; }

   private:
    DataLoader* loader_;
    std::int64_t end_;
    std::uint64_t loop_;
    BatchType* batch_ = nullptr;
  };
  class Epochs {
   public:
    Epochs(DataLoader* loader, std::int64_t end) : loader_(loader), end_(end) {}
    Iterator begin() const {
      loader_->engine_.begin_epochs(end_);
      return {loader_, end_};
    }
    std::default_sentinel_t end() const { return {}; }

   private:
    DataLoader* loader_;
    std::int64_t end_;
  };

  // Loops over all batches from the loader's place to the end of epoch `count - 1`. If the loader is already
  // at that end, the loop has no batches. So a second loop over epochs(1) is empty, and an evaluation should
  // loop over the loader itself. The first dimension of a batch is the batch size; an epoch's last batch can
  // be smaller. If `count` is negative, the loop throws std::invalid_argument.
  Epochs epochs(std::int64_t count) { return {this, count}; }
  // Loops over one epoch, from its beginning or from the place that load_state() has set.
  Iterator begin() { return {this, engine_.begin_pass()}; }
  std::default_sentinel_t end() const { return {}; }
};

template <class Sample>
DataLoader(const Dataset<Sample>&, DataLoaderOptions, int, int) -> DataLoader<Sample>;
template <class Sample>
DataLoader(const Dataset<Sample>&, DataLoaderOptions, const Group&) -> DataLoader<Sample>;
template <class Sample, std::invocable<std::vector<Sample>> Collate>
DataLoader(const Dataset<Sample>&, DataLoaderOptions, int, int, Collate)
    -> DataLoader<Sample, std::invoke_result_t<Collate, std::vector<Sample>>>;
template <class Sample, std::invocable<std::vector<Sample>> Collate>
DataLoader(const Dataset<Sample>&, DataLoaderOptions, const Group&, Collate)
    -> DataLoader<Sample, std::invoke_result_t<Collate, std::vector<Sample>>>;

template <class Sample>
DataLoader(const IterableDataset<Sample>&, DataLoaderOptions, int, int) -> DataLoader<Sample>;
template <class Sample>
DataLoader(const IterableDataset<Sample>&, DataLoaderOptions, const Group&) -> DataLoader<Sample>;
template <class Sample, std::invocable<std::vector<Sample>> Collate>
DataLoader(const IterableDataset<Sample>&, DataLoaderOptions, int, int, Collate)
    -> DataLoader<Sample, std::invoke_result_t<Collate, std::vector<Sample>>>;
template <class Sample, std::invocable<std::vector<Sample>> Collate>
DataLoader(const IterableDataset<Sample>&, DataLoaderOptions, const Group&, Collate)
    -> DataLoader<Sample, std::invoke_result_t<Collate, std::vector<Sample>>>;

}  // namespace muster
