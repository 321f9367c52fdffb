// The part of DataLoader that does not depend on the types of samples and batches.
//
// Not for direct use: include muster/data_loader.h.
#pragma once

#include <cstdint>
#include <memory>
#include <muster/data_loader_options.h>
#include <muster/detail/batch_source.h>

namespace muster::detail {

class LoaderEngine {
 public:
  LoaderEngine(std::unique_ptr<BatchSource> source, DataLoaderOptions options, int rank, int world_size);
  ~LoaderEngine();
  LoaderEngine(const LoaderEngine&) = delete;
  LoaderEngine& operator=(const LoaderEngine&) = delete;

  // The next batch before the end of epoch `end` - 1, of the source's type; null if there is none. Valid
  // until the next call.
  void* next(std::int64_t end);
  const BatchInfo& info() const;
  std::int64_t batches_per_epoch() const;
  DataLoaderState state() const;
  void check_state(const DataLoaderState& state) const;
  void load_state(const DataLoaderState& state);
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::detail
