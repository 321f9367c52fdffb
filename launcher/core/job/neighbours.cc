#include "launcher/core/job/neighbours.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace muster::launcher {

// Puts the members into a ring. The ring goes from machine to machine: first it takes one member of each
// machine, then a second one of each, and so on.
Neighbours::Neighbours(const std::vector<Member>& members, const std::string& interface) {
  if (members.size() < 2) return;
  std::map<std::string, std::size_t> count_on;
  std::vector<std::pair<std::size_t, const Member*>> order;
  for (const Member& each : members) order.emplace_back(count_on[each.machine]++, &each);
  std::ranges::sort(order, {},
                    [](const auto& each) { return std::pair(each.first, each.second->plan.node); });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Member& own = *order[i].second;
    const Member& caller = *order[(i + order.size() - 1) % order.size()].second;
    const auto met = meet({own.place, caller.place}, interface);
    ring_.push_back({.plan = own.plan, .address = met ? met->store_address : ""});
  }
}

std::string Neighbours::address_of(NodeId node) const {
  const auto found = std::ranges::find(ring_, node, &Place::node);
  return found == ring_.end() ? "" : found->address;
}

void Neighbours::prepared(NodeId node, const wire::AttemptPrepared& said) {
  const auto found = std::ranges::find(ring_, node, &Place::node);
  if (found == ring_.end()) return;
  found->port = said.neighbour_port;
  found->held = said.held_ranks;
}

std::map<NodeId, std::vector<wire::Neighbour>> Neighbours::told_to_each(
    const std::function<Incarnation(NodeId)>& incarnation_of) const {
  // Two nodes that share a connection are a pair. One of them is the caller, and the other one is called. A
  // node can keep copies for the other node, or it can have a checkpoint that the other node lacks.
  struct Pair {
    bool caller_keeps = false, called_keeps = false;
    bool caller_has = false, called_has = false;  // has a checkpoint that the other lacks
  };
  std::map<std::pair<std::size_t, std::size_t>, Pair> pairs;
  // Stores a fact about the nodes `of` and `to`, namely that `of` keeps copies for `to`, or that `of` has a
  // checkpoint that `to` lacks. The two nodes have one entry, with the key (caller, called). If `of` is the
  // called node, this sets the member `if_called` of the entry. If `of` is the caller, this sets the member
  // `if_caller`.
  const auto between = [&pairs](std::size_t of, std::size_t to, bool Pair::* if_called,
                                bool Pair::* if_caller) {
    const auto known = pairs.find({of, to});
    (known == pairs.end() ? pairs[{to, of}].*if_called : known->second.*if_caller) = true;
  };
  std::map<Rank, std::vector<std::size_t>> holders;
  for (std::size_t i = 0; i < ring_.size(); ++i)
    for (const Rank rank : ring_[i].held) holders[rank].push_back(i);
  for (std::size_t i = 0; i < ring_.size(); ++i)
    between((i + 1) % ring_.size(), i, &Pair::called_keeps, &Pair::caller_keeps);
  for (std::size_t i = 0; i < ring_.size(); ++i) {
    for (const auto& [rank, there] : holders) {
      if (!ring_[i].plan.has(rank) || std::ranges::find(there, i) != there.end()) continue;
      for (const std::size_t holder : there) between(holder, i, &Pair::called_has, &Pair::caller_has);
    }
  }
  std::map<NodeId, std::vector<wire::Neighbour>> told;
  const auto tell = [&](const Place& to, const Place& other, bool calls, bool keeps, bool has_ours) {
    told[to.plan.node].push_back({.node = other.plan.node,
                                  .incarnation = incarnation_of(other.plan.node),
                                  .address = calls ? other.address : "",
                                  .port = calls ? other.port : 0,
                                  .kept_count = keeps ? other.plan.worker_count : 0,
                                  .first_rank = other.plan.first_rank,
                                  .has_ours = has_ours,
                                  .key = {}});
  };
  for (const auto& [who, pair] : pairs) {
    const Place& caller = ring_[who.first];
    const Place& called = ring_[who.second];
    if (called.port == 0) continue;
    tell(caller, called, true, pair.caller_keeps, pair.called_has);
    tell(called, caller, false, pair.called_keeps, pair.caller_has);
  }
  return told;
}

bool Neighbours::are_among(const std::vector<NodePlan>& members) const {
  return std::ranges::all_of(ring_, [&](const Place& each) {
    return std::ranges::find(members, each.plan.node, &NodePlan::node) != members.end();
  });
}

}  // namespace muster::launcher
