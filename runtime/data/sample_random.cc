#include <muster/sample_random.h>

namespace muster {

namespace {

thread_local SampleRandom generator(0);
thread_local WorkerInfo worker;
thread_local std::uint64_t seed_of_epoch = 0;

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

SampleRandom::result_type SampleRandom::operator()() {
  return mix(state_ += 0x9e3779b97f4a7c15);
}

double SampleRandom::uniform() {
  return static_cast<double>((*this)() >> 11) * 0x1p-53;
}

double SampleRandom::uniform(double low, double high) {
  return low + (high - low) * uniform();
}

std::int64_t SampleRandom::below(std::int64_t bound) {
  // The high half of the product; off by at most bound / 2^64.
  return static_cast<std::int64_t>(
      (static_cast<unsigned __int128>((*this)()) * static_cast<std::uint64_t>(bound)) >> 64);
}

bool SampleRandom::chance(double probability) {
  return uniform() < probability;
}

SampleRandom& sample_random() {
  return generator;
}

void begin_sample(std::int64_t index) {
  generator = SampleRandom(mix(seed_of_epoch + static_cast<std::uint64_t>(index)));
}

WorkerInfo get_worker_info() {
  return worker;
}

namespace detail {

void set_worker_info(const WorkerInfo& info) {
  worker = info;
}

void begin_batch(std::uint64_t loader_seed, std::int64_t epoch) {
  seed_of_epoch = mix(loader_seed + mix(static_cast<std::uint64_t>(epoch) + 1));
}

}  // namespace detail

}  // namespace muster
