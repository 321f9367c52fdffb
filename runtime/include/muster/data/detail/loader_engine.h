// The part of DataLoader that does not depend on the types of samples and batches.
//
// The engine is at one place, the first batch that the loop has not received, and state() describes that
// place. With `in_order = false` the place includes the set of later batches that the loop has received.
// Workers load batches ahead of that place, but no loaded batch counts until next() returns it: stop(),
// load_state() and every error drop the batches that are loaded ahead, and the next loop loads them again. So
// an error neither loses nor repeats a batch. The training thread alone calls the engine; workers use only
// the source and the queue of batches.
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
  // If `copier` is given, it copies batches to the device, and options.device is ignored. Only tests give
  // one.
  LoaderEngine(std::unique_ptr<BatchSource> source, DataLoaderOptions options, int rank, int world_size,
               std::shared_ptr<DeviceCopier> copier = nullptr);
  ~LoaderEngine();
  LoaderEngine(const LoaderEngine&) = delete;
  LoaderEngine& operator=(const LoaderEngine&) = delete;

  // Returns the next batch, which has the source's type. If epoch `end - 1` has ended, returns null. The
  // batch is valid until the next call. If next() throws, the loader stays at the batch that failed. `loop`
  // is the return value of begin_loop(). If another loop has begun since, throws std::logic_error.
  void* next(std::int64_t end, std::uint64_t loop);
  std::uint64_t begin_loop();
  // Begins a loop up to the end of epoch `end - 1`. If the loop has no batch, rank 0 warns in two cases:
  // - This is the first loop after load_state(). The warning says that nothing is left to train.
  // - No state was loaded. The first such loop warns that it has no batch.
  void begin_epochs(std::int64_t end);
  // Begins a loop over one epoch. Returns the number that the caller must pass to next() as `end`.
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
