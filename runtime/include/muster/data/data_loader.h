// Batches of a dataset for this rank, loaded ahead by threads, in an order that depends on nothing but seed,
// epoch and ranks.
//
//   muster::DataLoader loader(dataset, {.batch_size = 64, .shuffle = true, .num_workers = 4}, job);
//   for (auto& batch : loader.epochs(10)) { ...; checkpoints.step(state); }
//
// goes on to the end of epoch 10 from wherever the loader stands: from the beginning, from where an earlier
// loop was left, or from a loaded state. As in PyTorch,
//
//   for (auto epoch = loader.epoch(); epoch < 10; ++epoch)
//     for (auto& batch : loader) { ... }
//
// has one loop an epoch: each begins an epoch at its start, the next one if the loop before was left within
// its own. After load_state() the first one goes over what is left of that epoch. With any number of workers
// the batches are the same. Options have PyTorch's names, defaults and meaning; docs/data.md tells of the
// differences.
//
// What a dataset throws is rethrown in the loop as std::runtime_error, which names the dataset, the epoch,
// the batch and the sample, and has the original nested in it. This and every other error leaves the loader
// at the batch that failed: the next loop, of either kind, tries it again, skip_failed_batch() passes it, and
// state() is the place before it. A loader belongs to one thread, the training thread. It neither copies nor
// owns the dataset.
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

// All that does not depend on the types of samples and batches.
class AnyDataLoader {
 public:
  virtual ~AnyDataLoader() = default;
  AnyDataLoader(const AnyDataLoader&) = delete;
  AnyDataLoader& operator=(const AnyDataLoader&) = delete;

  // The rank and the world size that it was made with.
  int rank() const { return engine_.share().first; }
  int world_size() const { return engine_.share().second; }
  // Of epoch(), if they differ; std::logic_error for an iterable dataset.
  std::int64_t batches_per_epoch() const { return engine_.batches_per_epoch(); }
  // From 0: of the batch taken last. Before a loop, after one that came to its end, and after load_state():
  // of the batch that comes next.
  std::int64_t epoch() const { return engine_.epoch(); }
  std::int64_t batch() const { return engine_.info().batch; }  // its place in that epoch, from 0
  // What is to know of the batch that the loop holds.
  const BatchInfo& info() const { return engine_.info(); }

  DataLoaderState state() const { return engine_.state(); }
  // Goes on from there; costs no reading. With another number of ranks or another batch_size the rest of the
  // epoch is cut anew from the same place in the global order, so that each sample is still used once, and a
  // line of rank 0's tells of the change. A global_batch_size must be the same: then the batches are too.
  // std::invalid_argument says what does not fit; the loader is then unchanged. Over an iterable dataset it
  // needs as many shards as before, unless an epoch begins, and passes over what was read.
  void load_state(const DataLoaderState& state) { engine_.load_state(state); }
  // Throws what load_state() would.
  void check_state(const DataLoaderState& state) const { engine_.check_state(state); }

  // After an error in a loop: the next one begins behind the batch that failed, which this rank then does not
  // train on; where ranks train together, all call it, or train inside DistributedDataParallel::join().
  // std::logic_error if the last loop did not fail in a batch.
  void skip_failed_batch() { engine_.skip_failed_batch(); }

  // Ends and joins the workers. The next loop starts others, at the same place.
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

  // std::invalid_argument names the option that cannot be used. `dataset` must outlive the loader. Without
  // `collate_fn` batches are what dataset.get_batch() gives; it is called by several threads at once.
  DataLoader(const Dataset<Sample>& dataset, DataLoaderOptions options, int rank, int world_size,
             CollateFunction collate_fn = nullptr)
      : AnyDataLoader(
            std::make_unique<detail::TypedSource<Sample, BatchType>>(dataset, std::move(collate_fn)),
            std::move(options), rank, world_size) {}
  DataLoader(const Dataset<Sample>& dataset, DataLoaderOptions options, const Group& group,
             CollateFunction collate_fn = nullptr)
      : DataLoader(dataset, std::move(options), group.rank(), group.size(), std::move(collate_fn)) {}
  // Each shard is read by one worker, and they take turns; one that has come to its end is left out.
  // Ranks may have unequal numbers of batches.
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

  // All batches from here to the end of epoch number `count`, counted from the very first, so none if the
  // loader has been through it; an evaluation loops over the loader itself. Their first dimension is the
  // batch size, but smaller in the last of an epoch without drop_last.
  Epochs epochs(std::int64_t count) { return {this, count}; }
  // One epoch, from its start or from a loaded state.
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
