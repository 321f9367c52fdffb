// Random numbers for one sample. An augmentation that draws from here gives the same result in a run that
// resumes or has another number of workers or ranks.
//
//   if (muster::sample_random().chance(0.5)) image = image.flip(-1);
//
// Before a DataLoader reads a sample, it seeds the reading thread's generator with the loader's seed, the
// epoch, and the sample's place in the epoch's order over all ranks. So a sample that occurs twice in an
// epoch draws other numbers the second time. In an iterable dataset of c shards, sample n of shard s has the
// place `n * c + s`. Outside a loader the seed is 0 when the thread starts. The generator is splitmix64
// (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace muster {

class SampleRandom {
 public:
  // SampleRandom is a uniform random bit generator, so the distributions of <random> accept it.
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
// Seeds sample_random() for the sample at place `number` of the current batch; the first sample has number 0.
// If a get_batch() draws random numbers, it must call begin_sample() before each sample. The default
// get_batch() does so.
void begin_sample(std::int64_t number);

// Describes the reader in the calling thread. The reader is a loader's worker, or the training thread itself;
// the training thread has id 0, and num_workers is 0.
struct WorkerInfo {
  int id = 0;
  int num_workers = 0;
  int rank = 0;
  int world_size = 1;
  std::uint64_t seed = 0;
};
WorkerInfo get_worker_info();

namespace detail {

// The loader calls set_worker_info() to set what get_worker_info() returns in this thread.
void set_worker_info(const WorkerInfo& info);
// While a ReadBatch exists, this thread reads one batch. `places` has the places of the batch's samples in
// the order of the epoch.
class [[nodiscard]] ReadBatch {
 public:
  ReadBatch(std::uint64_t loader_seed, std::int64_t epoch, std::span<const std::int64_t> places);
  ReadBatch(const ReadBatch&) = delete;
  ReadBatch& operator=(const ReadBatch&) = delete;
  ~ReadBatch();
};
// While a ReadSamples exists, this thread reads samples one by one, and calls begin() before each. A
// dataset's get() can read samples of a second dataset. In such an inner read begin() does nothing, so the
// second dataset continues with the random numbers of the outer sample.
class [[nodiscard]] ReadSamples {
 public:
  ReadSamples();
  ReadSamples(const ReadSamples&) = delete;
  ReadSamples& operator=(const ReadSamples&) = delete;
  ~ReadSamples();
  void begin(std::int64_t number) const;

 private:
  const bool inside_;  // already inside a sample: begin() does nothing
};
void begin_sample_at(std::int64_t place);

}  // namespace detail

}  // namespace muster
