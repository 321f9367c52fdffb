#include <muster/data/sample_random.h>
#include <utility>

namespace muster {

namespace {

thread_local SampleRandom generator(0);
thread_local WorkerInfo worker;
thread_local std::uint64_t seed_of_epoch = 0;
thread_local std::span<const std::int64_t> places;
thread_local bool reads_samples = false;

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
  // Multiplies a random 64-bit number by `bound` and returns the upper 64 bits of the product. All results
  // have nearly the same probability: the error is less than `1 / 2^64`.
  return static_cast<std::int64_t>(
      (static_cast<unsigned __int128>((*this)()) * static_cast<std::uint64_t>(bound)) >> 64);
}

bool SampleRandom::chance(double probability) {
  return uniform() < probability;
}

SampleRandom& sample_random() {
  return generator;
}

void begin_sample(std::int64_t number) {
  const bool known = number >= 0 && number < std::ssize(places);
  detail::begin_sample_at(known ? places[static_cast<std::size_t>(number)] : number);
}

WorkerInfo get_worker_info() {
  return worker;
}

namespace detail {

void set_worker_info(const WorkerInfo& info) {
  worker = info;
}

ReadBatch::ReadBatch(std::uint64_t loader_seed, std::int64_t epoch,
                     std::span<const std::int64_t> places_of_samples) {
  seed_of_epoch = mix(loader_seed + mix(static_cast<std::uint64_t>(epoch) + 1));
  places = places_of_samples;
}

ReadBatch::~ReadBatch() {
  seed_of_epoch = 0;
  places = {};
}

ReadSamples::ReadSamples() : inside_(std::exchange(reads_samples, true)) {}

ReadSamples::~ReadSamples() {
  reads_samples = inside_;
}

void ReadSamples::begin(std::int64_t number) const {
  if (!inside_) begin_sample(number);
}

void begin_sample_at(std::int64_t place) {
  generator = SampleRandom(mix(seed_of_epoch + static_cast<std::uint64_t>(place)));
}

}  // namespace detail

}  // namespace muster
