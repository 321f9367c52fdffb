// What a DataLoader reads when samples come one after the other: from a stream, a socket, a file that has no
// index.
//
//   struct Lines : muster::IterableDataset<std::string> {
//     std::unique_ptr<Reader> open(const muster::Shard& shard) const override { ... }
//   };
//
// As torch.utils.data.IterableDataset, and what PyTorch leaves to the program (who reads which part) is
// settled: there are as many shards as workers of all ranks, or as many as the loader's option `shards` says,
// and a reader gives the samples of one. A dataset
// is opened by several threads at once and outlives the loaders that read it; a reader is used by one thread
// at a time. What is drawn at random comes from sample_random(), which is seeded for each sample.
#pragma once

#include <cstdint>
#include <memory>
#include <muster/data/dataset.h>
#include <optional>
#include <string>

namespace muster {

// Part number `index` of `count`, in this epoch. The parts together are the dataset.
struct Shard {
  std::int64_t index = 0;  // rank * workers + worker, unless the loader was told a number of shards
  std::int64_t count = 1;
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;  // of the loader, the same on all ranks
};

template <class SampleType = Example>
class IterableDataset {
 public:
  using Sample = SampleType;

  class Reader {
   public:
    virtual ~Reader() = default;
    // The next sample; nothing at the end. What it throws reaches the training thread with the dataset's
    // name, the shard and the sample's number in it; a loader that skips bad samples asks for the next.
    virtual std::optional<Sample> next() = 0;
    // Passes over so many samples, and says true; or false, having done nothing: the loader then reads them.
    // A resumed run begins with it.
    virtual bool skip(std::int64_t /*count*/) { return false; }
  };

  virtual ~IterableDataset() = default;
  // At the first sample of the shard. The same shard must give the same samples each time.
  virtual std::unique_ptr<Reader> open(const Shard& shard) const = 0;
  // For messages: what it is and from where.
  virtual std::string name() const { return "the dataset"; }
};

}  // namespace muster
