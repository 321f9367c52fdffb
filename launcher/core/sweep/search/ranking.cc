#include "launcher/core/sweep/search/ranking.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace muster::launcher::sweep {
namespace {

enum class Class { kFinished, kMeasured, kUnmeasured, kUnusable, kPending };

struct Rank {
  Class of = Class::kUnusable;
  std::int64_t step = 0;
  double loss = 0;
  std::size_t index = 0;
};

// Returns the measurement that represents the trial. This is the one at the highest rung that the trial has
// reached. If it has reached no rung, this is the newest one.
Measurement compared(const std::vector<Measurement>& measured, const std::vector<std::int64_t>& rungs) {
  const std::int64_t reached = measured.back().step;
  const auto above = std::ranges::upper_bound(rungs, reached);
  if (above == rungs.begin()) return measured.back();
  const std::int64_t rung = *std::prev(above);
  const auto at = std::ranges::find_if(measured, [&](const Measurement& each) { return each.step >= rung; });
  return at == measured.end() ? measured.back() : Measurement{rung, at->value};
}

Rank rank_of(const Objective& objective, const std::vector<std::int64_t>& rungs, const Trial& trial) {
  Rank rank;
  if (trial.state == TrialState::kInfeasible || trial.state == TrialState::kFailed) return rank;
  const auto found = trial.measured.find(objective.metric);
  if (found == trial.measured.end() || found->second.empty()) {
    if (trial.state == TrialState::kStopped) rank.of = Class::kUnmeasured;
    if (!trial.is_over()) rank.of = Class::kPending;
    return rank;
  }
  const bool finished = trial.state == TrialState::kFinished;
  const Measurement last = finished ? found->second.back() : compared(found->second, rungs);
  if (std::isnan(last.value)) return rank;
  rank.of = finished ? Class::kFinished : Class::kMeasured;
  rank.step = finished ? 0 : last.step;
  rank.loss = loss_of(objective.mode, last.value);
  return rank;
}

}  // namespace

Ranking rank_trials(const Objective& objective, const std::vector<std::int64_t>& rungs,
                    const std::vector<Trial>& trials) {
  Ranking ranking;
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    Rank rank = rank_of(objective, rungs, trials[i]);
    rank.index = i;
    if (rank.of == Class::kPending)
      ranking.pending.push_back(i);
    else
      ranks.push_back(rank);
  }
  std::ranges::sort(ranks, {},
                    [](const Rank& rank) { return std::tuple(rank.of, -rank.step, rank.loss, rank.index); });
  for (const Rank& rank : ranks) ranking.ranked.push_back(rank.index);
  return ranking;
}

}  // namespace muster::launcher::sweep
