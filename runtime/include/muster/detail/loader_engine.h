// The part of DataLoader that does not depend on the types of samples and batches, and the part that does
// nothing else.
//
// Not for direct use: include muster/data_loader.h.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <muster/collate.h>
#include <muster/data_loader_options.h>
#include <muster/dataset.h>
#include <muster/detail/tensors.h>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace muster::detail {

struct LoadedBatch {
  std::shared_ptr<void> batch;       // of the loader's type of batches; null if no sample of it could be read
  std::vector<at::Tensor*> tensors;  // in it
  std::vector<std::int64_t> skipped;
};

// Reads batches. load() is called by several threads at once.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual std::int64_t size() const = 0;  // samples
  virtual std::string name() const = 0;
  virtual LoadedBatch load(std::span<const std::int64_t> indices, BadSample bad_sample) const = 0;
};

template <class Sample, class BatchType>
class TypedSource : public BatchSource {
 public:
  using CollateFunction = std::function<BatchType(std::vector<Sample>)>;
  TypedSource(const Dataset<Sample>& dataset, CollateFunction collate)
      : dataset_(dataset), collate_(std::move(collate)) {}

  std::int64_t size() const override { return dataset_.size(); }
  std::string name() const override { return dataset_.name(); }
  LoadedBatch load(std::span<const std::int64_t> indices, BadSample bad_sample) const override {
    LoadedBatch loaded;
    auto batch = std::make_shared<BatchType>();
    if (collate_) {
      std::vector<Sample> samples;
      for_each_sample(dataset_, indices, bad_sample == BadSample::kSkip ? &loaded.skipped : nullptr,
                      [&](Sample sample) { samples.push_back(std::move(sample)); });
      if (samples.empty()) return loaded;
      *batch = collate_(std::move(samples));
    } else if constexpr (std::is_same_v<BatchType, Collated<Sample>>) {
      if (bad_sample == BadSample::kStop) {
        *batch = dataset_.get_batch(indices);
      } else {
        *batch = collate_each(dataset_, indices, &loaded.skipped);
        if (loaded.skipped.size() == indices.size()) return loaded;
      }
    }
    collect_tensors(*batch, loaded.tensors);
    loaded.batch = std::move(batch);
    return loaded;
  }

 private:
  const Dataset<Sample>& dataset_;
  CollateFunction collate_;
};

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
