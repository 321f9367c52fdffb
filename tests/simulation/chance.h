// A stream of random numbers from one seed, which determines a simulation.
//
// The same on every machine. Streams of one seed have different salts, so that drawing from one does not
// change the others. One thread.
#pragma once

#include <cstdint>
#include <random>

#include "common/base/clock.h"

namespace muster::simulation {

class Chance {
 public:
  Chance(std::uint64_t seed, std::uint64_t salt) : rng_(seed * 0x9E3779B97F4A7C15ULL + salt) {}

  // 0 to count - 1.
  int below(int count) { return static_cast<int>(rng_() % static_cast<std::uint64_t>(count)); }
  bool one_in(int count) { return below(count) == 0; }
  // At least `low`, less than `high`.
  Duration between(Duration low, Duration high) {
    return low +
           Duration(static_cast<Duration::rep>(rng_() % static_cast<std::uint64_t>((high - low).count())));
  }

 private:
  std::mt19937_64 rng_;
};

}  // namespace muster::simulation
