#include <algorithm>
#include <cmath>

#include "launcher/core/sweep/search/model.h"
#include "launcher/core/sweep/search/parzen.h"
#include "launcher/core/sweep/search/ranking.h"

namespace muster::launcher::sweep {
namespace {

// Optuna 5.0's defaults.
constexpr std::size_t kStartupTrials = 10;
constexpr std::size_t kCandidates = 24;
constexpr std::size_t kMostGood = 25;
// For one candidate, points are drawn until one satisfies the constraints, but not more points than this.
constexpr std::size_t kTriesPerCandidate = 50;

// Parameters that exist under the same condition. A point has either all of them or none.
struct Group {
  std::vector<Axis> axes;
  std::vector<const Parameter*> fixed;  // those with one value, which need no model
};

std::vector<Group> groups_of(const Space& space) {
  std::vector<Group> groups;
  std::vector<const std::optional<Condition>*> conditions;
  for (const Parameter& parameter : space.parameters) {
    auto same = std::ranges::find_if(conditions, [&](const auto* other) { return *other == parameter.when; });
    const auto index = static_cast<std::size_t>(same - conditions.begin());
    if (same == conditions.end()) {
      conditions.push_back(&parameter.when);
      groups.emplace_back();
    }
    const Axis axis(parameter);
    if (axis.is_fixed())
      groups[index].fixed.push_back(&parameter);
    else
      groups[index].axes.push_back(axis);
  }
  return groups;
}

// Returns the coordinates of the trials that have all parameters of the group. They are in the order in which
// the trials were created.
std::vector<Coordinates> observations_of(const Group& group, const std::vector<Trial>& trials,
                                         std::vector<std::size_t> indices) {
  std::ranges::sort(indices);
  std::vector<Coordinates> observations;
  for (const std::size_t index : indices) {
    Coordinates coordinates;
    for (const Axis& axis : group.axes) {
      const auto at = axis.coordinate_in(trials[index].point);
      if (!at) break;
      coordinates.push_back(*at);
    }
    if (coordinates.size() == group.axes.size()) observations.push_back(std::move(coordinates));
  }
  return observations;
}

void put(const Group& group, const Coordinates& coordinates, Point& point) {
  for (std::size_t i = 0; i < group.axes.size(); ++i)
    point.insert_or_assign(group.axes[i].parameter().name, group.axes[i].value(coordinates[i]));
}

// Draws candidates, and extends `point` by one of them. It is the candidate with the highest ratio of two
// densities: that of the good trials, divided by that of the others. Returns false if no candidate satisfies
// the constraints.
bool extend(const Space& space, const Group& group, const ParzenEstimator& good,
            const ParzenEstimator& others, Random& random, Point& point) {
  std::optional<Coordinates> best;
  double most = 0;
  std::size_t candidates = 0;
  for (std::size_t i = 0; i < kCandidates * kTriesPerCandidate && candidates < kCandidates; ++i) {
    Coordinates candidate = good.sample(random);
    if (!space.constraints.empty()) {
      put(group, candidate, point);
      if (!is_allowed(space, point)) continue;
    }
    ++candidates;
    const double gain = good.log_density(candidate) - others.log_density(candidate);
    if (best && gain <= most) continue;
    most = gain;
    best = std::move(candidate);
  }
  if (best) put(group, *best, point);
  return best.has_value();
}

// Returns whether the parameters of the group are active in the point. All of them have the same condition,
// so it looks only at the first.
bool exists_in(const Group& group, const Point& point) {
  return is_active(group.axes.empty() ? *group.fixed.front() : group.axes.front().parameter(), point);
}

}  // namespace

std::optional<Point> tpe_point(const SearchSettings& settings, const Space& space, const History& history,
                               std::string& reason) {
  const std::vector<Trial>& trials = history.trials();
  Ranking ranking = rank_trials(settings.objectives.at(0), settings.rungs, trials);
  const std::size_t count = ranking.ranked.size();
  if (count < kStartupTrials) {
    reason = fmt::format("random: TPE begins after {} trials with values, so far there are {}",
                         kStartupTrials, count);
    return std::nullopt;
  }
  // A tenth of the trials counts as good, but at most 25 trials. A trial that has no value yet counts as bad.
  // (This is called "constant liar".) So trials that run at the same time try different points.
  const auto good_count = static_cast<std::ptrdiff_t>(std::min((count + 9) / 10, kMostGood));
  const auto split = ranking.ranked.begin() + good_count;
  const std::vector<std::size_t> good(ranking.ranked.begin(), split);
  std::vector<std::size_t> others(split, ranking.ranked.end());
  others.insert(others.end(), ranking.pending.begin(), ranking.pending.end());
  Random random(settings.seed, static_cast<std::uint64_t>(Draws::kModel), trials.size());
  Point point;
  for (const Group& group : groups_of(space)) {
    if (!exists_in(group, point)) continue;
    for (const Parameter* fixed : group.fixed) point.insert_or_assign(fixed->name, Axis(*fixed).value(0));
    if (group.axes.empty()) continue;
    const ParzenEstimator good_density(group.axes, observations_of(group, trials, good));
    const ParzenEstimator other_density(group.axes, observations_of(group, trials, others));
    if (extend(space, group, good_density, other_density, random, point)) continue;
    reason = fmt::format("random: none of {} TPE's points keeps the constraints",
                         kCandidates * kTriesPerCandidate);
    return std::nullopt;
  }
  reason = fmt::format("TPE: {} candidates from {} good and {} other trials", kCandidates, good.size(),
                       others.size());
  return point;
}

}  // namespace muster::launcher::sweep
