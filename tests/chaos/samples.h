// The samples of each step of the chaos training, for the worker and for the check of its ledger.
//
// Every sample occurs once in an epoch, in an order that depends on the epoch only, not on the number of
// ranks. Plain functions.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::chaos {

inline constexpr std::uint64_t kBatchSize = 12;
inline constexpr std::uint64_t kStepsPerEpoch = 7;
inline constexpr std::uint64_t kSampleCount = kBatchSize * kStepsPerEpoch;

// The finalizer of splitmix64.
inline std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// The samples of step 1, 2, ...
inline std::vector<std::uint64_t> samples_of_step(std::uint64_t step) {
  const std::uint64_t epoch = (step - 1) / kStepsPerEpoch;
  const std::uint64_t first = (step - 1) % kStepsPerEpoch * kBatchSize;
  std::vector<std::uint64_t> samples;
  // 5 and 84 have no common divisor, so this is a permutation.
  for (std::uint64_t i = first; i < first + kBatchSize; ++i)
    samples.push_back((5 * i + mix(epoch) % kSampleCount) % kSampleCount);
  return samples;
}

}  // namespace muster::chaos
