// The part of DataLoader that does not depend on the types of samples and batches.
//
// Not for direct use: include muster/data/data_loader.h.
#pragma once

#include <cstdint>
#include <memory>
#include <muster/data/data_loader_options.h>
#include <muster/data/detail/batch_source.h>
#include <utility>

namespace muster {

class DeviceCopier;

namespace detail {

class LoaderEngine {
 public:
  // `copier` is for tests: what copies to options.device, which then says nothing.
  LoaderEngine(std::unique_ptr<BatchSource> source, DataLoaderOptions options, int rank, int world_size,
               std::shared_ptr<DeviceCopier> copier = nullptr);
  ~LoaderEngine();
  LoaderEngine(const LoaderEngine&) = delete;
  LoaderEngine& operator=(const LoaderEngine&) = delete;

  // The next batch before the end of epoch `end` - 1, of the source's type; null if there is none. Valid
  // until the next call. What it throws leaves the loader at the batch that failed. `loop`: what
  // begin_loop() gave; std::logic_error if another has begun since.
  void* next(std::int64_t end, std::uint64_t loop);
  std::uint64_t begin_loop();
  // A loop up to the end of epoch `end` - 1 begins. Says, once, if it has no batch: after a state was loaded
  // nothing is left to train, else it is wrong use.
  void begin_epochs(std::int64_t end);
  // A loop over one epoch begins, which ends where next() is to be told.
  std::int64_t begin_pass();
  void skip_failed_batch();
  std::pair<int, int> share() const;  // rank and world size
  const BatchInfo& info() const;
  std::int64_t epoch() const;
  std::int64_t batches_per_epoch() const;
  DataLoaderState state() const;
  void check_state(const DataLoaderState& state) const;
  void load_state(const DataLoaderState& state);
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail

}  // namespace muster
