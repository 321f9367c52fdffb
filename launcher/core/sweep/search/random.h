// The random numbers of a search: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, 2014). The same seed, used for the same purpose, gives the same numbers on every machine. The
// distributions of <random> do not. Pure.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace muster::launcher::sweep {

// Mixes the bits of a number. Each bit of `bits` has an influence on all bits of the result. Different
// numbers have different results.
inline std::uint64_t mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31);
}

class Random {
 public:
  // Each use of a sweep's seed has a number `what`, and each trial has a number `nth`. Different numbers give
  // independent streams.
  Random(std::uint64_t seed, std::uint64_t what, std::uint64_t nth)
      : state_(mixed(mixed(mixed(seed + kGamma) + what + kGamma) + nth + kGamma)) {}

  std::uint64_t bits() { return mixed(state_ += kGamma); }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // in [0, 1)
  // Returns a number from 0 to bound - 1. Not all numbers are exactly equally likely. The difference is below
  // bound / 2^53, and no search notices it.
  std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>(uniform() * static_cast<double>(bound));
  }
  // Draws from a normal distribution by the method of Box and Muller. That method makes two numbers at a
  // time. The second one is not used.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  // Draws numbers from a normal distribution until one lies in [0, 1]. `mean` must lie in [0, 1]. If the
  // deviation is at most 2, more than one in six of the numbers does, so this soon ends.
  double normal_in_unit(double mean, double deviation) {
    while (true) {
      const double drawn = mean + deviation * normal();
      if (drawn >= 0 && drawn <= 1) return drawn;
    }
  }

 private:
  static constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15U;
  std::uint64_t state_;
};

}  // namespace muster::launcher::sweep
