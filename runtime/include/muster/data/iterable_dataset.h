// The source of a DataLoader's samples if they arrive in sequence: from a stream, a socket or a file without
// an index.
//
//   struct Lines : muster::IterableDataset<std::string> {
//     std::unique_ptr<Reader> open(const muster::Shard& shard) const override { ... }
//   };
//
// It is like torch.utils.data.IterableDataset with one difference: Muster decides which worker reads which
// part, not the program. There are as many shards as workers of all ranks, or as many as the loader's option
// `shards` says; a reader returns the samples of one shard. Several threads open a dataset at once; it must
// outlive the loaders that read it. One thread at a time uses a reader. Draw random numbers from
// sample_random(), which is seeded for each sample.
#pragma once

#include <cstdint>
#include <memory>
#include <muster/data/dataset.h>
#include <optional>
#include <string>

namespace muster {

// One part of an iterable dataset: number `index` of `count`, in this epoch. All parts together are the
// dataset.
struct Shard {
  std::int64_t index = 0;  // `rank * num_workers + worker`, unless the loader has the option `shards`
  std::int64_t count = 1;
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;  // the loader's, the same on all ranks
};

template <class SampleType = Example>
class IterableDataset {
 public:
  using Sample = SampleType;

  class Reader {
   public:
    virtual ~Reader() = default;
    // Returns the next sample, or nothing at the end. If next() throws, the training thread gets the
    // exception with a text that names the dataset, the shard and the sample's number in the shard. A loader
    // that skips bad samples warns instead, and calls next() again.
    virtual std::optional<Sample> next() = 0;
    // When a run resumes, the loader calls this function. A reader that can skip `count` samples does so and
    // returns true. Any other reader does nothing and returns false. The loader then reads these samples and
    // ignores them.
    virtual bool skip(std::int64_t /*count*/) { return false; }
  };

  virtual ~IterableDataset() = default;
  // Returns a reader at the first sample of the shard. The same shard must give the same samples each time.
  virtual std::unique_ptr<Reader> open(const Shard& shard) const = 0;
  // Returns a text for messages, which describes the dataset and its origin.
  virtual std::string name() const { return "the dataset"; }
};

}  // namespace muster
