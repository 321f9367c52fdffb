#include "launcher/core/job/stragglers.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace muster::launcher {

namespace {

constexpr double kRatio = 1.2;
constexpr double kRatioOfTwo = 1.5;
constexpr double kSigmas = 3;
constexpr double kSigmaOfDeviation = 1.4826;  // sigma of a normal distribution per median absolute deviation

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

struct Limit {
  double usual = 0;
  double highest = 0;  // a mean above this is slow
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

Stragglers::Stragglers(std::int32_t world_size) : ranks_(static_cast<std::size_t>(world_size)) {
  Group& world = groups_[""];
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) world.ranks.push_back(rank);
}

void Stragglers::move(std::size_t rank, const std::string& group) {
  Entry& entry = ranks_[rank];
  const auto from = groups_.find(entry.group);
  std::erase(from->second.ranks, rank);
  if (entry.count == kWindowSteps) --from->second.full_count;
  if (from->second.ranks.empty()) groups_.erase(from);
  entry = {.group = group, .slower = entry.slower};
  groups_[group].ranks.push_back(rank);
}

std::vector<Stragglers::Change> Stragglers::stepped(Rank rank, const std::string& group, Duration busy) {
  CHECK(rank.value() >= 0 && static_cast<std::size_t>(rank.value()) < ranks_.size(), "rank {} of {}", rank,
        ranks_.size());
  const auto index = static_cast<std::size_t>(rank.value());
  Entry& entry = ranks_[index];
  if (entry.group == group) {
    entry.steps_away = 0;
  } else if (entry.group.empty() || !group.empty() || ++entry.steps_away == kWindowSteps) {
    move(index, group);
  }
  Group& mates = groups_.at(entry.group);
  if (busy <= Duration::zero() || mates.ranks.size() < 2) return {};
  // Each rank leaves some fast steps out of its reports, and different ranks leave out different steps. So
  // the windows of a group become full one after the other. When the window of a rank is full, further steps
  // of this rank do not count until all windows of the group are full.
  if (entry.count < kWindowSteps) {
    entry.sum += busy;
    entry.longest = std::max(entry.longest, busy);
    if (++entry.count == kWindowSteps) ++mates.full_count;
  }
  return mates.full_count == mates.ranks.size() ? close_window(mates) : std::vector<Change>();
}

std::vector<Stragglers::Change> Stragglers::close_window(Group& group) {
  std::vector<double> means;
  for (const std::size_t rank : group.ranks) {
    Entry& entry = ranks_[rank];
    means.push_back(std::chrono::duration<double, std::nano>(entry.sum - entry.longest).count() /
                    (kWindowSteps - 1));
    entry.sum = entry.longest = {};
    entry.count = 0;
  }
  group.full_count = 0;
  const Limit limit = limit_of(means);
  std::vector<Change> changes;
  for (std::size_t i = 0; i < means.size(); ++i) {
    Entry& entry = ranks_[group.ranks[i]];
    const bool slower = means[i] > limit.highest;
    entry.contrary_count = slower == entry.slower ? 0 : entry.contrary_count + 1;
    if (entry.contrary_count < kWindowCount) continue;
    entry.slower = slower;
    entry.contrary_count = 0;
    changes.push_back({.rank = Rank(static_cast<std::int32_t>(group.ranks[i])),
                       .slower = slower,
                       .busy = nanoseconds(means[i]),
                       .usual = nanoseconds(limit.usual)});
  }
  return changes;
}

}  // namespace muster::launcher
