#include "common/base/step_shares.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <set>
#include <string_view>
#include <utility>

namespace muster {

namespace {

constexpr std::array<std::string_view, 4> kFirst = {"data", "compute", "communicate", "checkpoint"};
constexpr double kNsPerMs = 1e6;

void add(StepShares& all, const std::string& part, const std::vector<RankSteps>& ranks) {
  StepShare share{.part = part};
  for (const RankSteps& each : ranks) {
    const auto found = each.parts_ns.find(part);
    if (each.step_count <= 0 || found == each.parts_ns.end()) continue;
    const double ms = static_cast<double>(found->second) / kNsPerMs / static_cast<double>(each.step_count);
    share.mean_ms += ms / all.rank_count;
    if (ms <= share.most_ms) continue;
    share.most_ms = ms;
    share.most_rank = each.rank;
  }
  if (share.most_ms > 0) all.shares.push_back(std::move(share));
}

std::string in_ms(double value) {
  return fmt::format("{:.{}f}", value, value < 9.95 ? 2 : value < 99.5 ? 1 : 0);
}

}  // namespace

StepShares shares_of(const std::vector<RankSteps>& ranks) {
  StepShares all;
  std::set<std::string> others;
  for (const RankSteps& each : ranks) {
    if (each.step_count <= 0) continue;
    ++all.rank_count;
    all.step_count = std::max(all.step_count, each.step_count);
    for (const auto& [part, ns] : each.parts_ns) others.insert(part);
  }
  for (const std::string_view part : kFirst) {
    others.erase(std::string(part));
    add(all, std::string(part), ranks);
  }
  for (const std::string& part : others) add(all, part, ranks);
  for (const StepShare& share : all.shares) all.step_ms += share.mean_ms;
  for (StepShare& share : all.shares) share.share = share.mean_ms / all.step_ms;
  return all;
}

std::string to_line(const StepShares& all) {
  std::vector<StepShare> shares = all.shares;
  std::ranges::sort(shares, std::greater(), &StepShare::share);
  std::string text = fmt::format("{} ms a step", in_ms(all.step_ms));
  const char* separator = ": ";
  for (const StepShare& share : shares) {
    if (share.share < 0.01) break;
    text += fmt::format("{}{} {:.0f} %", std::exchange(separator, ", "), share.part, 100 * share.share);
  }
  return text;
}

std::string to_table(const StepShares& all, const std::string& indent) {
  if (all.step_count == 0) return {};
  const bool several = all.rank_count > 1;
  std::size_t width = std::string_view("communicate").size();
  for (const StepShare& share : all.shares) width = std::max(width, share.part.size());
  std::string text = fmt::format("{}{:<{}}{:>10}{:>9}{}\n", indent, "step time", width, "ms", "share",
                                 several ? "   longest" : "");
  for (const StepShare& share : all.shares) {
    text += fmt::format("{}{:<{}}{:>10}{:>7.1f} %", indent, share.part, width, in_ms(share.mean_ms),
                        100 * share.share);
    if (several) text += fmt::format("{:>10} ms on rank {}", in_ms(share.most_ms), share.most_rank);
    text += '\n';
  }
  const std::string of = several ? fmt::format(", mean of {} ranks", all.rank_count) : "";
  text += fmt::format("{}{:<{}}{:>10}   over {} step{}{}\n", indent, "in all", width, in_ms(all.step_ms),
                      all.step_count, all.step_count == 1 ? "" : "s", of);
  return text;
}

}  // namespace muster
