#include "launcher/core/hang.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/base/check.h"

namespace muster::launcher {

namespace {

constexpr std::size_t kCulpritLines = 3;
constexpr std::size_t kOtherGroups = 4;

// The section that most are in, if more than half are.
const std::string* majority_section(const std::vector<Stall>& stalls) {
  for (const Stall& each : stalls) {
    const auto same = std::ranges::count(stalls, each.section, &Stall::section);
    if (static_cast<std::size_t>(same) * 2 > stalls.size()) return &each.section;
  }
  return nullptr;
}

const Stall& earliest(const std::vector<const Stall*>& stalls) {
  return **std::ranges::min_element(stalls, {},
                                    [](const Stall* stall) { return std::pair(stall->since, stall->rank); });
}

}  // namespace

void Hang::add(Stall stall) {
  std::erase_if(stalls_, [&](const Stall& each) { return each.rank == stall.rank; });
  stalls_.push_back(std::move(stall));
}

void Hang::moved(Rank rank, std::int64_t step) {
  std::erase_if(stalls_, [&](const Stall& each) { return each.rank == rank && each.step < step; });
}

Stall Hang::culprit() const {
  CHECK(!stalls_.empty(), "nobody stalls");
  const auto those = [&](auto predicate) {
    std::vector<const Stall*> found;
    for (const Stall& each : stalls_) {
      if (predicate(each)) found.push_back(&each);
    }
    return found;
  };
  if (const auto stopped = those([](const Stall& each) { return each.stopped; }); !stopped.empty())
    return earliest(stopped);
  const std::int64_t lowest = std::ranges::min_element(stalls_, {}, &Stall::step)->step;
  const auto behind = those([&](const Stall& each) { return each.step == lowest; });
  if (behind.size() < stalls_.size()) return earliest(behind);
  if (const std::string* most = majority_section(stalls_)) {
    const auto apart = those([&](const Stall& each) { return each.section != *most; });
    if (!apart.empty()) return earliest(apart);
  }
  return elsewhere().value_or(earliest(behind));
}

// By the stacks. One that nobody has complained of, as it may be in a section that may take long, holds up
// the others if all of them stall.
std::optional<Stall> Hang::elsewhere() const {
  const std::vector<Rank> ranks = unlike_most(stacks_);
  if (ranks.empty()) return std::nullopt;
  std::vector<const Stall*> found;
  for (const Stall& each : stalls_) {
    if (std::ranges::find(ranks, each.rank) != ranks.end()) found.push_back(&each);
  }
  if (!found.empty()) return earliest(found);
  if (stalls_.size() + ranks.size() < stacks_.size()) return std::nullopt;
  Stall stall;
  stall.rank = ranks.front();
  stall.node = nodes_.at(ranks.front());
  stall.what = "does not come to where the others wait";
  stall.since = std::ranges::min_element(stalls_, {}, &Stall::since)->since;
  return stall;
}

std::vector<std::string> Hang::evidence() const {
  std::vector<std::string> lines;
  const Rank first = culprit().rank;
  if (const auto found = stacks_.find(first); found != stacks_.end()) {
    for (const std::string& line : shown_lines(found->second, kCulpritLines))
      lines.push_back(fmt::format("rank {}: {}", first, line));
  }
  std::map<std::string, std::vector<Rank>> others;
  for (const auto& [rank, stack] : stacks_) {
    if (rank == first) continue;
    const auto top = shown_lines(stack, 1);
    if (!top.empty()) others[top.front()].push_back(rank);
  }
  for (const auto& [line, ranks] : others) {
    if (lines.size() == kCulpritLines + kOtherGroups) break;
    lines.push_back(ranks.size() == 1
                        ? fmt::format("rank {}: {}", ranks.front(), line)
                        : fmt::format("{} ranks, such as {}: {}", ranks.size(), ranks.front(), line));
  }
  return lines;
}

}  // namespace muster::launcher
