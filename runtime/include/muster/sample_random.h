// Random numbers for one sample: augmentations draw from here, and a run that resumes, or has another number
// of workers or ranks, draws the same.
//
//   if (muster::sample_random().chance(0.5)) image = image.flip(-1);
//
// While a DataLoader reads a sample, the generator of its thread is seeded with the loader's seed, the epoch
// and the sample's index. Outside a loader it is seeded with 0 when the thread starts. The generator is
// splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#pragma once

#include <cstdint>
#include <limits>

namespace muster {

class SampleRandom {
 public:
  using result_type =
      std::uint64_t;  // a C++ uniform random bit generator: usable with <random>'s distributions
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
// Seeds it for the sample with this index. Who overrides Dataset::get_batch() and draws calls it before each
// sample; the default get_batch() does.
void begin_sample(std::int64_t index);

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
void begin_batch(std::uint64_t loader_seed, std::int64_t epoch);

}  // namespace detail

}  // namespace muster
