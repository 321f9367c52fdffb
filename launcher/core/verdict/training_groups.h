// Groups of ranks that train together in an attempt. One job may run several independent trainings, each in a
// group of its own. Ranks of different groups are not compared.
//
// The steps of a rank name its group (docs/protocol.md). The name "" stands for the world: the program names
// no group, or the rank meets several groups. Such a rank may train with any other rank. If a rank has
// reported no steps, its group is unknown. Plain values.
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
  // Returns whether it is possible that the rank trains with the ranks of this group.
  bool may_be_in(const std::string& group, Rank rank) const {
    const auto found = by_rank_.find(rank);
    return found == by_rank_.end() || may_meet(found->second, group);
  }
  // Returns whether the two ranks are known to train in different groups.
  bool apart(Rank one, Rank other) const {
    const auto found = by_rank_.find(one);
    return found != by_rank_.end() && !may_be_in(found->second, other);
  }
  // Returns the groups in which the rank may train. There is at least one.
  std::set<std::string> possible_for(Rank rank) const {
    const auto found = by_rank_.find(rank);
    if (found != by_rank_.end()) return {found->second};
    std::set<std::string> all;
    for (const auto& each : by_rank_) all.insert(each.second);
    return all.empty() ? std::set<std::string>{""} : all;
  }
  // Returns whether it is known that none of the other world_size - 1 ranks trains with this one.
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
