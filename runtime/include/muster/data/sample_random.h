// Random numbers for one sample: augmentations draw from here, and a run that resumes, or has another number
// of workers or ranks, draws the same.
//
//   if (muster::sample_random().chance(0.5)) image = image.flip(-1);
//
// While a DataLoader reads a sample, the generator of its thread is seeded with the loader's seed, the epoch
// and the sample's place in the order of the epoch over all ranks: a sample that comes twice in an epoch
// draws anew. In a stream it is n * c + s for sample n of shard s of c. Outside a loader it is seeded with 0
// when the thread starts. The generator is splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom
// number generators, 2014).
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace muster {

class SampleRandom {
 public:
  // A C++ uniform random bit generator: usable with <random>'s distributions.
  using result_type = std::uint64_t;
  explicit SampleRandom(std::uint64_t seed) : state_(seed) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()();

  double uniform();                         // in [0, 1)
  double uniform(double low, double high);  // in [low, high)
  std::int64_t below(std::int64_t bound);   // in 0 .. bound - 1
  bool chance(double probability);

 private:
  std::uint64_t state_;
};

SampleRandom& sample_random();
// Seeds it for sample number `number` of the batch that is being read, from 0. Who overrides
// Dataset::get_batch() and draws calls it before each sample; the default get_batch() does.
void begin_sample(std::int64_t number);

// What reads samples in the calling thread; a loader's worker, or the training thread itself (id 0 of 0).
struct WorkerInfo {
  int id = 0;
  int num_workers = 0;
  int rank = 0;
  int world_size = 1;
  std::uint64_t seed = 0;
};
WorkerInfo get_worker_info();

namespace detail {

// For the loader: for this thread and until the next one.
void set_worker_info(const WorkerInfo& info);
// While it lives, this thread reads a batch with samples of these places in the order of the epoch.
class [[nodiscard]] ReadBatch {
 public:
  ReadBatch(std::uint64_t loader_seed, std::int64_t epoch, std::span<const std::int64_t> places);
  ReadBatch(const ReadBatch&) = delete;
  ReadBatch& operator=(const ReadBatch&) = delete;
  ~ReadBatch();
};
// While it lives, samples are read one by one, begin() before each. A dataset that reads others for a sample
// of its own goes on with the numbers of that one.
class [[nodiscard]] ReadSamples {
 public:
  ReadSamples();
  ReadSamples(const ReadSamples&) = delete;
  ReadSamples& operator=(const ReadSamples&) = delete;
  ~ReadSamples();
  void begin(std::int64_t number) const;

 private:
  const bool inside_;  // of a sample
};
void begin_sample_at(std::int64_t place);

}  // namespace detail

}  // namespace muster
