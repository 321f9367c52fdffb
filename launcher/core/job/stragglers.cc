#include "launcher/core/job/stragglers.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace muster::launcher {

namespace {

constexpr double kRatio = 1.2;
constexpr double kRatioOfTwo = 1.5;
constexpr double kSigmas = 3;
constexpr double kSigmaOfDeviation = 1.4826;  // of a normal distribution, from its median absolute deviation

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

struct Limit {
  double usual = 0;
  double highest = 0;  // that is not slow
};

Limit limit_of(const std::vector<double>& means) {
  if (means.size() == 2) {
    const double faster = std::ranges::min(means);
    return {faster, faster * kRatioOfTwo};
  }
  const double usual = median(means);
  std::vector<double> deviations;
  for (const double mean : means) deviations.push_back(std::abs(mean - usual));
  return {usual, std::max(usual * kRatio, usual + kSigmas * kSigmaOfDeviation * median(deviations))};
}

Duration nanoseconds(double count) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::nano>(count));
}

}  // namespace

std::vector<Stragglers::Change> Stragglers::stepped(Rank rank, Duration busy) {
  CHECK(rank.value() >= 0 && static_cast<std::size_t>(rank.value()) < ranks_.size(), "rank {} of {}", rank,
        ranks_.size());
  if (busy <= Duration::zero() || ranks_.size() < 2) return {};
  Entry& entry = ranks_[static_cast<std::size_t>(rank.value())];
  // It waits for the others' windows: of fast steps not all are reported, and not the same ones of each rank.
  if (entry.count == kWindowSteps) return {};
  entry.sum += busy;
  entry.longest = std::max(entry.longest, busy);
  if (++entry.count < kWindowSteps || ++full_count_ < ranks_.size()) return {};
  return close_window();
}

std::vector<Stragglers::Change> Stragglers::close_window() {
  std::vector<double> means;
  for (Entry& entry : ranks_) {
    means.push_back(std::chrono::duration<double, std::nano>(entry.sum - entry.longest).count() /
                    (kWindowSteps - 1));
    entry.sum = entry.longest = {};
    entry.count = 0;
  }
  full_count_ = 0;
  const Limit limit = limit_of(means);
  std::vector<Change> changes;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Entry& entry = ranks_[i];
    const bool slower = means[i] > limit.highest;
    entry.contrary_count = slower == entry.slower ? 0 : entry.contrary_count + 1;
    if (entry.contrary_count < kWindowCount) continue;
    entry.slower = slower;
    entry.contrary_count = 0;
    changes.push_back({.rank = Rank(static_cast<std::int32_t>(i)),
                       .slower = slower,
                       .busy = nanoseconds(means[i]),
                       .usual = nanoseconds(limit.usual)});
  }
  return changes;
}

}  // namespace muster::launcher
