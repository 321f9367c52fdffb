#include <algorithm>
#include <muster/comm/collectives.h>
#include <muster/train/step_profile.h>
#include <nlohmann/json.hpp>

#include "common/base/step_shares.h"
#include "runtime/rank/step_time.h"

namespace muster {
namespace {

std::vector<RankSteps> steps_of_all(const Group& group) {
  const RankSteps mine = step_time().total();
  const nlohmann::json said{{"steps", mine.step_count}, {"parts", mine.parts_ns}};
  const std::string text = said.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::vector<RankSteps> all;
  for (const std::string& each : all_gather_object(group, text)) {
    const nlohmann::json heard = nlohmann::json::parse(each);
    all.push_back(
        {.rank = group.ranks()[all.size()], .step_count = heard.at("steps"), .parts_ns = heard.at("parts")});
  }
  return all;
}

}  // namespace

StepProfile step_profile(const Group& group) {
  const std::vector<RankSteps> ranks = steps_of_all(group);
  const StepShares shares = shares_of(ranks);
  StepProfile profile{
      .ranks = shares.rank_count, .steps = shares.step_count, .step_ms = shares.step_ms, .parts = {}};
  for (const StepShare& each : shares.shares)
    profile.parts.push_back({each.part, each.mean_ms, each.share, each.most_ms, each.most_rank});
  return profile;
}

double StepProfile::share_of(const std::string& name) const {
  const auto found = std::ranges::find(parts, name, &StepPart::name);
  return found == parts.end() ? 0 : found->share;
}

std::string StepProfile::table() const {
  StepShares all{.step_count = steps, .rank_count = ranks, .step_ms = step_ms, .shares = {}};
  for (const StepPart& part : parts)
    all.shares.push_back({part.name, part.mean_ms, part.share, part.longest_ms, part.longest_rank});
  return to_table(all);
}

}  // namespace muster
