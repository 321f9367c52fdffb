// The source of a loader's batches. The base class does not depend on the type of the samples; its subclasses
// do.
//
// Not for direct use: include muster/data/data_loader.h. Several threads read a source at once.
#pragma once

#include <cstdint>
#include <exception>
#include <expected>
#include <functional>
#include <memory>
#include <muster/comm/detail/tensors.h>
#include <muster/data/batch_plan.h>
#include <muster/data/collate.h>
#include <muster/data/data_loader_options.h>
#include <muster/data/dataset.h>
#include <muster/data/iterable_dataset.h>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster::detail {

struct LoadedBatch {
  std::shared_ptr<void> batch;        // of the loader's batch type; null if no sample could be read
  std::vector<at::Tensor*> tensors;   // the tensors in `batch`
  PlannedBatch planned;               // the request
  std::vector<std::int64_t> skipped;  // places in `planned` of unreadable samples, ascending
  // The number of the requested samples that exist. At the end of a shard there can be fewer than requested.
  std::int64_t count = 0;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual std::string name() const = 0;
  // Returns the number of samples; empty for an iterable dataset.
  virtual std::optional<std::int64_t> size() const = 0;
  virtual LoadedBatch load(std::int64_t epoch, std::span<const std::int64_t> indices,
                           BadSample bad_sample) = 0;
  // Returns an empty batch of the loader's type, for a rank that reads nothing. If that type has no default
  // constructor, returns null.
  virtual std::shared_ptr<void> nothing() const { return nullptr; }
  // If threads that are reading could hang for ever, the loader abandons them and calls this function. The
  // source must not use the readers of these threads again.
  virtual void abandon_readers() {}
};

// Puts samples together into a batch. If the loader has a collate function, it calls that function. Otherwise
// it works as default_collate().
template <class Sample, class BatchType>
class BatchBuilder {
 public:
  using CollateFunction = std::function<BatchType(std::vector<Sample>)>;
  BatchBuilder(const CollateFunction& collate, std::size_t count)
      : collate_(collate), collator_(static_cast<std::int64_t>(count)) {}

  // If add() throws, the batch does not contain the sample. Other samples can still be added.
  void add(Sample sample) {
    if (!collate_) return add_whole(collator_, std::move(sample), count_);
    samples_.push_back(std::move(sample));
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
  std::shared_ptr<void> nothing() const override {
    if constexpr (std::is_default_constructible_v<BatchType>) return std::make_shared<BatchType>();
    return nullptr;
  }

 private:
  const Dataset<Sample>& dataset_;
  typename Builder::CollateFunction collate_;
};

// The shards of an iterable dataset that this rank reads. Sample n of shard s has the index `n * count + s`.
struct ShardRange {
  std::int64_t first = 0;
  std::int64_t mine = 1;
  std::int64_t count = 1;  // over all ranks
};
ShardRange shards_of(const DataLoaderOptions& options, int rank, int world_size);

// Does the same as rethrow_bad_sample(), for a sample of a shard.
[[noreturn]] void rethrow_bad_sample_of_shard(const std::string& dataset, std::int64_t index,
                                              std::int64_t shards);

// The source for an iterable dataset. One thread at a time reads a shard. load() looks where the shard's
// reader stands. If the batch begins there or later, load() continues with this reader. Otherwise it opens
// the shard anew.
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
        shards_(shards) {
    abandon_readers();
  }

  std::string name() const override { return dataset_.name(); }
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  LoadedBatch load(std::int64_t epoch, std::span<const std::int64_t> indices, BadSample bad_sample) override {
    const std::shared_ptr<Reading> reading = reading_of(indices.front() % shards_.count);
    read_up_to(*reading, epoch, indices.front());
    LoadedBatch loaded;
    Builder builder(collate_, indices.size());
    for (const std::int64_t index : indices) {
      const Read result = read(*reading, index, bad_sample, builder);
      if (result == Read::kEnd) break;
      if (result == Read::kBad) loaded.skipped.push_back(loaded.count);
      ++loaded.count;
    }
    if (drop_last_ && loaded.count < std::ssize(indices)) return {};
    // Unreadable samples at the end of a shard do not make a batch of their own.
    if (loaded.count == std::ssize(loaded.skipped) && at_end(*reading)) return {};
    builder.finish(loaded);
    return loaded;
  }
  void abandon_readers() override {
    const std::lock_guard lock(mutex_);
    readings_.clear();
    for (std::int64_t shard = 0; shard < shards_.mine; ++shard)
      readings_.push_back(std::make_shared<Reading>());
  }

 private:
  // A sample, or the exception that reading it threw.
  using ReadSample = std::expected<Sample, std::exception_ptr>;
  struct Reading {
    std::int64_t epoch = -1;
    std::int64_t next = 0;  // index of the next sample
    bool ended = false;
    std::unique_ptr<typename IterableDataset<Sample>::Reader> reader;
    std::optional<ReadSample> ahead;  // sample number `next`, already read
  };
  struct Nowhere {
    void add(const Sample&) {}
  };
  enum class Read { kSample, kBad, kEnd };

  std::shared_ptr<Reading> reading_of(std::int64_t shard) {
    const std::lock_guard lock(mutex_);
    return readings_[static_cast<std::size_t>(shard - shards_.first)];
  }

  // Moves the shard's reader to this index. If the reader is past the index, opens the shard anew. Samples on
  // the way that cannot be read are ignored.
  void read_up_to(Reading& reading, std::int64_t epoch, std::int64_t index) {
    if (reading.epoch != epoch || reading.next > index || (!reading.reader && !reading.ended)) {
      const std::int64_t shard = index % shards_.count;
      reading = {.epoch = epoch, .next = shard, .ended = false, .reader = nullptr, .ahead = {}};
      reading.reader = dataset_.open({.index = shard, .count = shards_.count, .epoch = epoch, .seed = seed_});
      if (!reading.reader) throw std::runtime_error("open() returned no reader");
    }
    const std::int64_t passed = (index - reading.next) / shards_.count;
    if (passed == 0 || reading.ended) return;
    try {
      if (!reading.ahead && reading.reader->skip(passed)) {
        reading.next = index;
        return;
      }
    } catch (...) {
      reading.reader.reset();  // its position is unknown
      throw;
    }
    Nowhere nowhere;
    while (reading.next < index && read(reading, reading.next, BadSample::kSkip, nowhere) != Read::kEnd) {
    }
  }

  // Reads the next sample. Returns nullopt if the shard has ended.
  static std::optional<ReadSample> next_of(typename IterableDataset<Sample>::Reader& reader) {
    try {
      std::optional<Sample> sample = reader.next();
      if (!sample) return std::nullopt;
      return ReadSample(*std::move(sample));
    } catch (...) {
      return std::unexpected(std::current_exception());
    }
  }

  // Returns true if the shard has no more samples. To find out, this function reads one sample, and keeps it
  // for the next batch.
  bool at_end(Reading& reading) {
    if (reading.ended) return true;
    begin_sample_at(reading.next);
    reading.ahead = next_of(*reading.reader);
    reading.ended = !reading.ahead;
    if (reading.ended) reading.reader.reset();
    return reading.ended;
  }

  // Reads the shard's next sample, which gets this index, and adds it to `to`.
  template <class To>
  Read read(Reading& reading, std::int64_t index, BadSample bad_sample, To& to) {
    if (reading.ended) return Read::kEnd;
    begin_sample_at(index);
    reading.next = index + shards_.count;
    try {
      std::optional<ReadSample> sample =
          reading.ahead ? std::exchange(reading.ahead, std::nullopt) : next_of(*reading.reader);
      reading.ended = !sample;
      if (reading.ended)
        reading.reader.reset();
      else if (*sample)
        to.add(**std::move(sample));
      else
        std::rethrow_exception(sample->error());
    } catch (...) {
      if (bad_sample == BadSample::kSkip) {
        if constexpr (!std::is_same_v<To, Nowhere>) warn_of_skipped(dataset_.name(), index);
        return Read::kBad;
      }
      reading.reader.reset();
      rethrow_bad_sample_of_shard(dataset_.name(), index, shards_.count);
    }
    return reading.ended ? Read::kEnd : Read::kSample;
  }

  const IterableDataset<Sample>& dataset_;
  typename Builder::CollateFunction collate_;
  std::uint64_t seed_;
  bool drop_last_;
  ShardRange shards_;
  std::mutex mutex_;  // guards readings_; one thread at a time uses a reading
  std::vector<std::shared_ptr<Reading>> readings_;
};

}  // namespace muster::detail
