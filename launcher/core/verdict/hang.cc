#include "launcher/core/verdict/hang.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <set>

#include "common/base/check.h"

namespace muster::launcher {

namespace {

constexpr std::size_t kCulpritLines = 3;
constexpr std::size_t kOtherGroups = 4;
constexpr std::size_t kCollectiveLines = 2;

// Returns the section that more than half of the ranks are in. Returns null if there is none.
const std::string* majority_section(const std::vector<Stall>& stalls) {
  std::map<std::string_view, std::size_t> counts;
  for (const Stall& each : stalls) {
    if (++counts[each.section] * 2 > stalls.size()) return &each.section;
  }
  return nullptr;
}

}  // namespace

void Hang::add(Stall stall) {
  const auto known = std::ranges::find(stalls_, stall.rank, &Stall::rank);
  if (known == stalls_.end()) {
    stalls_.push_back(std::move(stall));
  } else if (stall.stopped || !known->hard) {
    *known = std::move(stall);
  }
}

void Hang::moved(Rank rank, std::int64_t step) {
  std::erase_if(stalls_, [&](const Stall& each) { return each.rank == rank && each.step < step; });
}

Hang::Pool Hang::those(const std::function<bool(const Stall&)>& predicate) const {
  Pool found;
  for (const Stall& each : stalls_) {
    if (predicate(each)) found.push_back(&each);
  }
  std::ranges::sort(found, {}, [](const Stall* stall) { return std::pair(stall->since, stall->rank); });
  return found;
}

// Keeps in the pool only the stalls for which `predicate` is true. If there are no such stalls, changes
// nothing.
void Hang::keep(Pool& pool, const std::function<bool(const Stall&)>& predicate) const {
  Pool kept;
  std::ranges::copy_if(pool, std::back_inserter(kept), [&](const Stall* each) { return predicate(*each); });
  if (!kept.empty()) pool = std::move(kept);
}

bool Hang::knows_others_than(Rank rank, const TrainingGroups& groups) const {
  const auto is_mate = [&](Rank other) { return other != rank && !groups.apart(rank, other); };
  return std::ranges::any_of(stalls_, [&](const Stall& each) { return is_mate(each.rank); }) ||
         std::ranges::any_of(stacks_, [&](const auto& each) { return is_mate(each.first); });
}

// Returns the part of this hang that concerns the ranks which may train in `group`.
Hang Hang::within(const std::string& group, const TrainingGroups& groups) const {
  Hang part;
  for (const Stall& each : stalls_)
    if (groups.may_be_in(group, each.rank)) part.stalls_.push_back(each);
  for (const auto& each : stacks_)
    if (groups.may_be_in(group, each.first)) part.stacks_.insert(each);
  part.nodes_ = nodes_;
  return part;
}

std::vector<Stall> Hang::suspects(const TrainingGroups& groups) const {
  CHECK(!stalls_.empty(), "no rank stalls");
  // Each stopped rank is a cause by itself.
  if (const Pool stopped = those(&Stall::stopped); !stopped.empty()) return {*stopped.front()};
  const bool some_are_hard = std::ranges::any_of(stalls_, &Stall::hard);
  std::set<std::string> hanging;
  for (const Stall& each : stalls_)
    if (each.hard || !some_are_hard) hanging.merge(groups.possible_for(each.rank));
  std::vector<Stall> all;
  for (const std::string& group : hanging) {
    for (Stall& each : within(group, groups).suspects_of_one_training())
      if (std::ranges::find(all, each.rank, &Stall::rank) == all.end()) all.push_back(std::move(each));
  }
  std::ranges::sort(all, {}, [](const Stall& each) { return std::pair(each.since, each.rank); });
  if (hanging.size() == 1) return all;
  // A rank that waits may be waiting for another group, and then this rank is not the cause. So if some of
  // the suspects do not wait, only these stay suspects.
  std::vector<Stall> busy;
  std::ranges::copy_if(all, std::back_inserter(busy),
                       [this](const Stall& each) { return !is_known_to_wait(each.rank); });
  return busy.empty() ? all : busy;
}

bool Hang::is_known_to_wait(Rank rank) const {
  const auto stack = stacks_.find(rank);
  return stack != stacks_.end() && waits_for_others(stack->second);
}

std::vector<Stall> Hang::suspects_of_one_training() const {
  const std::int64_t lowest = std::ranges::min_element(stalls_, {}, &Stall::step)->step;
  Pool pool = those([&](const Stall& each) { return each.step == lowest; });
  const bool all_alike = pool.size() == stalls_.size();
  const std::vector<Rank> elsewhere = unlike_most(stacks_);
  if (const std::string* most = majority_section(stalls_); most != nullptr && pool.size() > 1)
    keep(pool, [&](const Stall& each) { return each.section != *most; });
  if (all_alike && pool.size() == stalls_.size()) {
    for (const std::vector<Rank>& ranks : {elsewhere, awaited()}) {
      auto absent = absent_where_others_wait(ranks);
      if (!absent.empty()) return absent;
    }
  }
  if (pool.size() > 1)
    keep(pool, [&](const Stall& each) { return std::ranges::find(elsewhere, each.rank) != elsewhere.end(); });
  // If the stacks of all suspects are here, and some suspects do not wait for others, only the ones that do
  // not wait stay suspects. If a stack is missing, nothing is known about that rank, so all suspects stay.
  if (std::ranges::all_of(pool, [&](const Stall* each) { return stacks_.contains(each->rank); }))
    keep(pool, [&](const Stall& each) { return !waits_for_others(stacks_.at(each.rank)); });
  std::vector<Stall> found;
  for (const Stall* each : pool) found.push_back(*each);
  return found;
}

// If every stalled rank waits for other ranks, returns the ranks whose stacks show that they do not wait. The
// stalled ranks may be waiting for these. Otherwise returns an empty vector.
std::vector<Rank> Hang::awaited() const {
  std::vector<Rank> ranks;
  if (!std::ranges::all_of(stalls_, [this](const Stall& each) { return is_known_to_wait(each.rank); }))
    return ranks;
  for (const auto& [rank, stack] : stacks_) {
    if (!waits_for_others(stack)) ranks.push_back(rank);
  }
  return ranks;
}

// Returns the ranks of `elsewhere` if all other ranks wait for them, and no ranks otherwise. All others wait
// for them if all others have stalled, but no rank of `elsewhere` has. A rank of `elsewhere` may be in a
// section that is allowed to take long. In such a section, a rank does not count as stalled.
std::vector<Stall> Hang::absent_where_others_wait(const std::vector<Rank>& elsewhere) const {
  std::vector<Stall> found;
  for (const Rank rank : elsewhere) {
    if (std::ranges::find(stalls_, rank, &Stall::rank) != stalls_.end()) return {};
    Stall stall;
    stall.rank = rank;
    stall.node = nodes_.at(rank);
    stall.what = "does not arrive where the others wait";
    stall.since = std::ranges::min_element(stalls_, {}, &Stall::since)->since;
    found.push_back(std::move(stall));
  }
  return stalls_.size() + found.size() < stacks_.size() ? std::vector<Stall>{} : found;
}

std::string Hang::place_of(const std::vector<Stall>& ranks) const {
  std::string place;
  for (const Stall& each : ranks) {
    const auto found = stacks_.find(each.rank);
    const auto top = found == stacks_.end() ? std::vector<std::string>{} : shown_lines(found->second, 1);
    if (top.empty() || (!place.empty() && top.front() != place)) return "";
    place = top.front();
  }
  return place;
}

std::vector<std::string> Hang::evidence(const TrainingGroups& groups) const {
  std::vector<std::string> lines;
  const std::vector<Stall> suspects = this->suspects(groups);
  const auto culprit = suspects.size() == 1 ? stacks_.find(suspects.front().rank) : stacks_.end();
  if (culprit != stacks_.end()) {
    for (const std::string& line : shown_lines(culprit->second, kCulpritLines))
      lines.push_back(fmt::format("rank {}: {}", culprit->first, line));
  }
  std::map<Rank, MainStack> in_question;
  for (const auto& each : stacks_) {
    if (!std::ranges::all_of(suspects, [&](const Stall& one) { return groups.apart(one.rank, each.first); }))
      in_question.insert(each);
  }
  for (std::string& line : missing_in_collectives(in_question)) {
    if (lines.size() < kCulpritLines + kCollectiveLines) lines.push_back(std::move(line));
  }
  const std::size_t room = lines.size() + kOtherGroups;
  std::map<std::string, std::vector<Rank>> others;
  for (const auto& [rank, stack] : in_question) {
    if (culprit != stacks_.end() && rank == culprit->first) continue;
    const auto top = shown_lines(stack, 1);
    if (!top.empty()) others[top.front()].push_back(rank);
  }
  for (const auto& [line, ranks] : others) {
    if (lines.size() == room) break;
    lines.push_back(ranks.size() == 1
                        ? fmt::format("rank {}: {}", ranks.front(), line)
                        : fmt::format("{} ranks, such as {}: {}", ranks.size(), ranks.front(), line));
  }
  return lines;
}

}  // namespace muster::launcher
