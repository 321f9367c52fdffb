// Which ranks of an attempt train together: several trainings may go on side by side in one job, each in its
// group, and the ranks of one say nothing about those of another.
//
// A rank's steps say in which group it trains (docs/protocol.md): "" is the world, which is every rank's
// whose program says nothing, or that meets several groups, so that it may meet anybody. Of a rank that has
// made no step it is not known yet. Plain values.
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
  // Whether the rank may train with those of this group.
  bool may_be_in(const std::string& group, Rank rank) const {
    const auto found = by_rank_.find(rank);
    return found == by_rank_.end() || may_meet(found->second, group);
  }
  // Whether the two train in different groups, as far as is known.
  bool apart(Rank one, Rank other) const {
    const auto found = by_rank_.find(one);
    return found != by_rank_.end() && !may_be_in(found->second, other);
  }
  // In which the rank may train: at least one.
  std::set<std::string> possible_for(Rank rank) const {
    const auto found = by_rank_.find(rank);
    if (found != by_rank_.end()) return {found->second};
    std::set<std::string> all;
    for (const auto& each : by_rank_) all.insert(each.second);
    return all.empty() ? std::set<std::string>{""} : all;
  }
  // Whether no other of so many ranks may train with this one.
  bool is_alone(Rank rank, std::int32_t world_size) const {
    const auto apart_count =
        std::ranges::count_if(by_rank_, [&](const auto& each) { return apart(rank, each.first); });
    return apart_count == world_size - 1;
  }

  // What a journal keeps of it (journal/state.h).
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
