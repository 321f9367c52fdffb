#include "launcher/core/job/crew.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace muster::launcher {

Crew::Crew(std::vector<NodePlan> members) : members_(std::move(members)) {
  place_members();
}

void Crew::place_members() {
  position_.clear();
  for (std::size_t i = 0; i < members_.size(); ++i) position_[members_[i].node] = i;
}

// The members must be in the order of their node numbers. Each member's ranks must follow those of the member
// before it.
bool Crew::restored() {
  std::int32_t rank = 0;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const NodePlan& each = members_[i];
    const bool in_order = i == 0 || members_[i - 1].node < each.node;
    const std::int32_t most = std::numeric_limits<std::int32_t>::max() - rank;
    if (!in_order || each.first_rank != Rank(rank) || each.worker_count < 1 || each.worker_count > most)
      return false;
    rank += each.worker_count;
  }
  place_members();
  const auto takes_part = [this](NodeId node) { return position_.contains(node); };
  if (!std::ranges::all_of(prepared_, takes_part) || !std::ranges::all_of(with_workers_, takes_part) ||
      !std::ranges::all_of(giving_up_, takes_part) ||
      !std::ranges::all_of(ended_, [this](Rank each) { return has(each); }))
    return false;
  living_count_ = 0;
  for (const NodeId node : with_workers_) living_count_ += static_cast<std::size_t>(find(node)->worker_count);
  living_count_ -= static_cast<std::size_t>(
      std::ranges::count_if(ended_, [this](Rank each) { return with_workers_.contains(node_of(each)); }));
  return living_count_ <= unended_count_ && unended_count_ <= static_cast<std::size_t>(rank) - ended_.size();
}

const NodePlan* Crew::find(NodeId node) const {
  const auto found = position_.find(node);
  return found == position_.end() ? nullptr : &members_[found->second];
}

NodeId Crew::node_of(Rank rank) const {
  const auto after = std::ranges::upper_bound(members_, rank, {}, &NodePlan::first_rank);
  return std::prev(after)->node;
}

bool Crew::owns(NodeId node, Rank rank) const {
  const NodePlan* plan = find(node);
  return plan != nullptr && plan->has(rank);
}

std::int32_t Crew::world_size() const {
  return empty() ? 0 : members_.back().first_rank.value() + members_.back().worker_count;
}

std::vector<std::int32_t> Crew::rank_counts(wire::Mpi mpi) const {
  std::vector<std::int32_t> counts;
  if (mpi == wire::Mpi::kNone) return counts;
  for (const NodePlan& each : members_) counts.push_back(each.worker_count);
  return counts;
}

void Crew::prepared(NodeId node) {
  if (position_.contains(node)) prepared_.insert(node);
}

void Crew::start_workers() {
  living_count_ = unended_count_ = static_cast<std::size_t>(world_size()) - ended_.size();
  for (const NodePlan& each : members_) with_workers_.insert(each.node);
}

void Crew::end(Rank rank) {
  if (!ended_.insert(rank).second || unended_count_ == 0) return;
  --unended_count_;
  if (with_workers_.contains(node_of(rank))) --living_count_;
}

std::vector<Rank> Crew::living() const {
  std::vector<Rank> all;
  for (const NodePlan& each : members_) {
    if (!with_workers_.contains(each.node)) continue;
    for (const Rank rank : unended_of(each)) all.push_back(rank);
  }
  return all;
}

std::vector<Rank> Crew::unended_of(const NodePlan& node) const {
  std::vector<Rank> all;
  for (std::int32_t local = 0; local < node.worker_count; ++local) {
    if (const Rank rank(node.first_rank.value() + local); !ended(rank)) all.push_back(rank);
  }
  return all;
}

void Crew::emptied(NodeId node) {
  if (with_workers_.erase(node) > 0) living_count_ -= unended_of(*find(node)).size();
}

void Crew::lose(NodeId node) {
  prepared_.erase(node);
  emptied(node);
}

}  // namespace muster::launcher
