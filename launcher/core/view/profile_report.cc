#include "launcher/core/view/profile_report.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <ranges>

namespace muster::launcher {

namespace {

using nlohmann::ordered_json;

// Rounds to microseconds: more digits are noise, and people also read report.json.
double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

ordered_json rank_json(const RankSteps& steps) {
  const StepShares own = shares_of({steps});
  ordered_json parts = ordered_json::object();
  for (const StepShare& share : own.shares) parts[share.part] = rounded(share.mean_ms);
  return {{"rank", steps.rank},
          {"steps", steps.step_count},
          {"step_ms", rounded(own.step_ms)},
          {"parts_ms", std::move(parts)}};
}

}  // namespace

StepShares mean_profile(const AttemptHistory& attempt) {
  std::vector<RankSteps> ranks;
  for (const RankSteps& each : attempt.profiles | std::views::values) ranks.push_back(each);
  return shares_of(ranks);
}

ordered_json profile_json(const AttemptHistory& attempt) {
  const StepShares all = mean_profile(attempt);
  if (all.step_count == 0) return nullptr;
  ordered_json parts = ordered_json::object();
  for (const StepShare& share : all.shares)
    parts[share.part] = {{"mean_ms", rounded(share.mean_ms)},
                         {"share", rounded(share.share)},
                         {"longest_ms", rounded(share.most_ms)},
                         {"longest_rank", share.most_rank}};
  ordered_json ranks = ordered_json::array();
  for (const RankSteps& each : attempt.profiles | std::views::values) ranks.push_back(rank_json(each));
  return {{"steps", all.step_count},
          {"step_ms", rounded(all.step_ms)},
          {"parts", std::move(parts)},
          {"ranks", std::move(ranks)}};
}

}  // namespace muster::launcher
