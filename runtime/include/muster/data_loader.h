// Batches of a dataset for this rank, loaded ahead by threads, in an order that depends on nothing but seed,
// epoch and ranks.
//
//   for (auto& batch : loader.epochs(10)) { ...; checkpoints.step(state); }
//
// goes on to the end of epoch 10 from wherever the loader stands: from the beginning, from where an earlier
// loop was left, or from a loaded state. With any number of workers the batches are the same. Threads start
// at the first batch and are joined by stop() and the destructor. A loader belongs to one thread, the
// training thread. It neither copies nor owns the dataset.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <muster/dataset.h>

namespace muster {

class Job;

struct DataLoaderOptions {
  std::int64_t batch_size = 1;  // per rank
  bool shuffle = false;
  int num_workers = 0;      // threads; 0 loads in the training thread
  bool pin_memory = false;  // page-locked batches, for faster copies to a GPU; without a GPU it has no effect
  bool drop_last = false;   // leave out the last batch of an epoch if it is not full
  int prefetch_factor = 2;  // batches loaded ahead per worker
  std::uint64_t seed = 0;   // of the shuffling; the same on all ranks
};

// What training has consumed: whole batches of the current epoch. The rest says for what the position is
// valid.
struct DataLoaderState {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;
  std::int64_t batch_size = 1;
  std::int64_t world_size = 1;
  std::int64_t dataset_size = 0;
  bool shuffle = false;
  std::uint64_t seed = 0;
};

class DataLoader {
 public:
  class Iterator;
  class Epochs;

  // std::invalid_argument names the option that cannot be used. `dataset` must outlive the loader.
  DataLoader(const Dataset& dataset, DataLoaderOptions options, const Job& job);
  DataLoader(const Dataset& dataset, DataLoaderOptions options, int rank, int world_size);
  DataLoader(const Dataset&&, DataLoaderOptions, const Job&) = delete;
  DataLoader(const Dataset&&, DataLoaderOptions, int, int) = delete;
  ~DataLoader();

  // All batches from here to the end of epoch number `count`, counted from the very first. Their first
  // dimension is batch_size, but smaller in the last of an epoch without drop_last. What a dataset
  // throws is rethrown in the loop as std::runtime_error, which names the examples and has the original
  // nested in it.
  Epochs epochs(std::int64_t count);

  std::int64_t batches_per_epoch() const;
  std::int64_t epoch() const;  // of the batch that the loop holds, from 0
  std::int64_t batch() const;  // its place in that epoch, from 0

  DataLoaderState state() const;
  // Goes on from there; costs no reading. At another batch size or world size it goes on at the same place in
  // the global order, if that is a batch boundary there too. std::invalid_argument says what does not fit;
  // the loader is then unchanged.
  void load_state(const DataLoaderState& state);
  void check_state(const DataLoaderState& state) const;  // throws what load_state would

  void stop();

 private:
  struct State;
  Batch* next(std::int64_t end);
  std::unique_ptr<State> state_;
};

class DataLoader::Iterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;
  Iterator(DataLoader* loader, std::int64_t end) : loader_(loader), end_(end), batch_(loader->next(end)) {}
  Batch& operator*() const { return *batch_; }
  Iterator& operator++() {
    batch_ = loader_->next(end_);
    return *this;
  }
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return batch_ == nullptr; }

 private:
  DataLoader* loader_;
  std::int64_t end_;
  Batch* batch_;
};

class DataLoader::Epochs {
 public:
  Epochs(DataLoader* loader, std::int64_t end) : loader_(loader), end_(end) {}
  Iterator begin() const { return {loader_, end_}; }
  std::default_sentinel_t end() const { return {}; }

 private:
  DataLoader* loader_;
  std::int64_t end_;
};

}  // namespace muster
