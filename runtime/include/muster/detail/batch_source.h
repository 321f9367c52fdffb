// Where a loader's batches come from, with and without the type of the samples.
//
// Not for direct use: include muster/data_loader.h. A source is read by several threads at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <muster/collate.h>
#include <muster/data_loader_options.h>
#include <muster/dataset.h>
#include <muster/detail/tensors.h>
#include <muster/iterable_dataset.h>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster::detail {

struct LoadedBatch {
  std::shared_ptr<void> batch;       // of the loader's type of batches; null if no sample of it could be read
  std::vector<at::Tensor*> tensors;  // in it
  std::vector<std::int64_t> skipped;
  std::int64_t count = 0;  // of the indices asked for, so many there were: fewer at the end of a shard
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual std::string name() const = 0;
  // Samples; nothing for an iterable dataset.
  virtual std::optional<std::int64_t> size() const = 0;
  virtual LoadedBatch load(std::int64_t epoch, std::span<const std::int64_t> indices,
                           BadSample bad_sample) = 0;
};

// Puts samples together: by the loader's function if there is one, else as default_collate().
template <class Sample, class BatchType>
class BatchBuilder {
 public:
  using CollateFunction = std::function<BatchType(std::vector<Sample>)>;
  BatchBuilder(const CollateFunction& collate, std::size_t count)
      : collate_(collate), collator_(static_cast<std::int64_t>(count)) {}

  // After one that has thrown, the batch is without that sample.
  void add(Sample sample) {
    if (collate_) {
      samples_.push_back(std::move(sample));
    } else {
      try {
        collator_.add(std::move(sample));
      } catch (...) {
        collator_.truncate(count_);
        throw;
      }
    }
    ++count_;
  }
  void finish(LoadedBatch& loaded) {
    if (count_ == 0) return;
    if (collate_)
      put(collate_(std::move(samples_)), loaded);
    else if constexpr (std::is_same_v<BatchType, Collated<Sample>>)
      put(collator_.finish(), loaded);
  }
  static void put(BatchType batch, LoadedBatch& loaded) {
    auto shared = std::make_shared<BatchType>(std::move(batch));
    collect_tensors(*shared, loaded.tensors);
    loaded.batch = std::move(shared);
  }

 private:
  const CollateFunction& collate_;
  std::vector<Sample> samples_;
  Collator<Sample> collator_;
  std::int64_t count_ = 0;
};

template <class Sample, class BatchType>
class TypedSource : public BatchSource {
  using Builder = BatchBuilder<Sample, BatchType>;

 public:
  TypedSource(const Dataset<Sample>& dataset, typename Builder::CollateFunction collate)
      : dataset_(dataset), collate_(std::move(collate)) {}

  std::string name() const override { return dataset_.name(); }
  std::optional<std::int64_t> size() const override { return dataset_.size(); }
  LoadedBatch load(std::int64_t /*epoch*/, std::span<const std::int64_t> indices,
                   BadSample bad_sample) override {
    LoadedBatch loaded;
    loaded.count = std::ssize(indices);
    if constexpr (std::is_same_v<BatchType, Collated<Sample>>) {
      if (!collate_ && bad_sample == BadSample::kStop) {
        Builder::put(dataset_.get_batch(indices), loaded);
        return loaded;
      }
    }
    Builder builder(collate_, indices.size());
    for_each_sample(dataset_, indices, bad_sample == BadSample::kSkip ? &loaded.skipped : nullptr,
                    [&](Sample sample) { builder.add(std::move(sample)); });
    builder.finish(loaded);
    return loaded;
  }

 private:
  const Dataset<Sample>& dataset_;
  typename Builder::CollateFunction collate_;
};

// Which shards of an iterable dataset this rank reads, one a worker. Sample n of shard s has the index
// n * count + s.
struct ShardRange {
  std::int64_t first = 0;
  std::int64_t mine = 1;
  std::int64_t count = 1;  // of all ranks
};
ShardRange shards_of(const DataLoaderOptions& options, int rank, int world_size);

// As on_bad_sample().
void on_bad_sample_of_shard(const std::string& dataset, std::int64_t index, std::int64_t shards,
                            std::vector<std::int64_t>* skipped);

// Of an iterable dataset. A shard is read by one thread at a time, on from where its reader stands if that is
// where the batch begins, else from the shard's beginning.
template <class Sample, class BatchType>
class StreamSource : public BatchSource {
  using Builder = BatchBuilder<Sample, BatchType>;

 public:
  StreamSource(const IterableDataset<Sample>& dataset, typename Builder::CollateFunction collate,
               const DataLoaderOptions& options, const ShardRange& shards)
      : dataset_(dataset),
        collate_(std::move(collate)),
        seed_(options.seed),
        drop_last_(options.drop_last),
        shards_(shards),
        readings_(static_cast<std::size_t>(shards.mine)) {}

  std::string name() const override { return dataset_.name(); }
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  LoadedBatch load(std::int64_t epoch, std::span<const std::int64_t> indices, BadSample bad_sample) override {
    Reading& reading = reading_at(epoch, indices.front(), bad_sample);
    LoadedBatch loaded;
    Builder builder(collate_, indices.size());
    for (const std::int64_t index : indices) {
      if (!read(reading, index, bad_sample, &loaded.skipped, builder)) break;
      ++loaded.count;
    }
    if (drop_last_ && loaded.count < std::ssize(indices)) return {};
    builder.finish(loaded);
    return loaded;
  }

 private:
  struct Reading {
    std::int64_t epoch = -1;
    std::int64_t next = 0;  // index of the sample that comes next
    bool ended = false;
    std::unique_ptr<typename IterableDataset<Sample>::Reader> reader;
  };
  struct Nowhere {
    void add(const Sample&) {}
  };

  // The shard of this index, where it is to be read on.
  Reading& reading_at(std::int64_t epoch, std::int64_t index, BadSample bad_sample) {
    const std::int64_t shard = index % shards_.count;
    Reading& reading = readings_[static_cast<std::size_t>(shard - shards_.first)];
    if (reading.epoch != epoch || reading.next > index || (!reading.reader && !reading.ended)) {
      reading = {.epoch = epoch, .next = shard, .ended = false, .reader = nullptr};
      reading.reader = dataset_.open({.index = shard, .count = shards_.count, .epoch = epoch, .seed = seed_});
      if (!reading.reader) throw std::runtime_error("open() has given no reader");
    }
    const std::int64_t passed = (index - reading.next) / shards_.count;
    if (passed == 0 || reading.ended) return reading;
    if (reading.reader->skip(passed)) {
      reading.next = index;
      return reading;
    }
    std::vector<std::int64_t> skipped;
    Nowhere nowhere;
    while (reading.next < index && read(reading, reading.next, bad_sample, &skipped, nowhere)) {
    }
    return reading;
  }

  // One sample; false if there is none.
  template <class To>
  bool read(Reading& reading, std::int64_t index, BadSample bad_sample, std::vector<std::int64_t>* skipped,
            To& to) {
    if (reading.ended) return false;
    begin_sample(index);
    reading.next = index + shards_.count;
    try {
      std::optional<Sample> sample = reading.reader->next();
      reading.ended = !sample.has_value();
      if (reading.ended)
        reading.reader.reset();
      else
        to.add(*std::move(sample));
    } catch (...) {
      if (bad_sample == BadSample::kStop) reading.reader.reset();
      on_bad_sample_of_shard(dataset_.name(), index, shards_.count,
                             bad_sample == BadSample::kSkip ? skipped : nullptr);
    }
    return !reading.ended;
  }

  const IterableDataset<Sample>& dataset_;
  typename Builder::CollateFunction collate_;
  std::uint64_t seed_;
  bool drop_last_;
  ShardRange shards_;
  std::vector<Reading> readings_;
};

}  // namespace muster::detail
