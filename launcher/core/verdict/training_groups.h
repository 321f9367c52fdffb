// Groups of ranks that train together in an attempt. One job may run several independent trainings, each in
// its own group; ranks of different groups are not compared.
//
// A rank's steps name its group (docs/protocol.md). "" is the world: the program names no group, or the rank
// meets several groups, so it may train with any rank. The group of a rank without steps is unknown. Plain
// values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/base/ids.h"

namespace muster::launcher {

class TrainingGroups {
 public:
  void trains_in(Rank rank, std::string group) { by_rank_.insert_or_assign(rank, std::move(group)); }
  // Whether the rank may train with the ranks of this group.
  bool may_be_in(const std::string& group, Rank rank) const {
    const auto found = by_rank_.find(rank);
    return found == by_rank_.end() || may_meet(found->second, group);
  }
  // Whether the two are known to train in different groups.
  bool apart(Rank one, Rank other) const {
    const auto found = by_rank_.find(one);
    return found != by_rank_.end() && !may_be_in(found->second, other);
  }
  // The groups that the rank may train in: at least one.
  std::set<std::string> possible_for(Rank rank) const {
    const auto found = by_rank_.find(rank);
    if (found != by_rank_.end()) return {found->second};
    std::set<std::string> all;
    for (const auto& each : by_rank_) all.insert(each.second);
    return all.empty() ? std::set<std::string>{""} : all;
  }
  // Whether none of the other world_size - 1 ranks may train with this one.
  bool is_alone(Rank rank, std::int32_t world_size) const {
    const auto apart_count =
        std::ranges::count_if(by_rank_, [&](const auto& each) { return apart(rank, each.first); });
    return apart_count == world_size - 1;
  }

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(by_rank_);
  }

 private:
  static bool may_meet(const std::string& one, const std::string& other) {
    return one.empty() || other.empty() || one == other;
  }

  std::map<Rank, std::string> by_rank_;
};

}  // namespace muster::launcher
