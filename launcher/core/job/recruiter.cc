#include "launcher/core/job/recruiter.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "common/base/check.h"

namespace muster::launcher {

using Presence = Fleet::Presence;

Recruiter::Recruiter(const Plan& plan, Fleet& fleet)
    : size_{.min_nodes = plan.min_nodes.value_or(static_cast<std::int32_t>(plan.nodes.size())), .places = {}},
      fleet_(fleet) {
  for (const NodePlan& node : plan.nodes) size_.places.push_back(node.worker_count);
  for (std::int32_t node = 0; node < plan.agent_count(); ++node) {
    fleet_.add(NodeId(node));
    rooms_.push_back(plan.room_of(NodeId(node)));
  }
  compare_rooms();
}

void Recruiter::compare_rooms() {
  mixed_ = std::ranges::any_of(rooms_, [this](std::int32_t room) { return room != rooms_.front(); });
}

// Each place must have a node with enough room for it.
bool Recruiter::restored() {
  if (size_.places.empty() || size_.places.size() > rooms_.size() || size_.min_nodes < 1 ||
      size_.min_nodes > size_.max_nodes())
    return false;
  std::int64_t workers = 0;
  for (std::size_t i = 0; i < rooms_.size(); ++i) {
    const bool fits = i >= size_.places.size() || (size_.places[i] >= 1 && size_.places[i] <= rooms_[i]);
    if (!fits || rooms_[i] < 1) return false;
    workers += rooms_[i];
  }
  compare_rooms();
  return workers <= 2 * kMostWorkers;
}

NodeId Recruiter::add(std::int32_t slots) {
  CHECK(rooms_.size() == size_.places.size(), "{} nodes for {} places", rooms_.size(), size_.places.size());
  const NodeId node(static_cast<std::int32_t>(rooms_.size()));
  size_.places.push_back(slots);
  rooms_.push_back(slots);
  compare_rooms();
  fleet_.add(node);
  return node;
}

std::int32_t Recruiter::world_size() const {
  return std::accumulate(size_.places.begin(), size_.places.end(), 0);
}

Placement Recruiter::place(const Crew& last, bool patient, TimePoint now) const {
  if (!enough_may_be_there(patient, now))
    return {.members = {}, .needed = {}, .reason = "agents are missing"};
  return launcher::place(size_, statuses(last, now), patient);
}

std::vector<NodeId> Recruiter::missing(const Crew& last, bool patient, TimePoint now) const {
  std::vector<NodeId> missing = launcher::place(size_, statuses(last, now), patient).needed;
  std::erase_if(missing, [this](NodeId id) { return fleet_.presence(id) == Presence::kThere; });
  return missing;
}

// Returns whether there are too few nodes for an attempt. A spare does not count if it has no room for any
// free place.
bool Recruiter::too_few(Presence least) const {
  const auto needed = static_cast<std::size_t>(size_.min_nodes);
  const std::size_t count = least == Presence::kThere ? fleet_.there_count() : fleet_.alive_count();
  if (!mixed_ || count < needed) return count < needed;
  std::vector<std::int32_t> rooms;
  for (const NodeId id : fleet_.nodes()) {
    if (fleet_.presence(id) >= least) rooms.push_back(room_of(id));
  }
  return placeable_count(size_, rooms) < size_.min_nodes;
}

std::int32_t Recruiter::likely_workers(NodeId spare) const {
  return launcher::likely_workers(size_, room_of(spare));
}

// Also hires agents for excluded nodes as long as too few nodes are there, because a node that is on its way
// might never arrive. The placement still prefers nodes that are not excluded.
FleetDecisions Recruiter::hire_absent(TimePoint now) {
  FleetDecisions all;
  const std::set<NodeId> absent = fleet_.absent();
  const bool with_excluded = too_few(Presence::kThere);
  for (const bool excluded : {false, true}) {
    if (excluded && !with_excluded) break;
    for (const NodeId id : absent) {
      if (fleet_.alive(id) || fleet_.excluded(id, now) != excluded) continue;
      std::ranges::move(fleet_.hire(id, now, "the node has no agent"), std::back_inserter(all));
    }
  }
  return all;
}

// Checks whether it is worth while to try a placement. This check is cheap. Up to ten thousand agents join
// one by one, and a placement takes time for each node. If the nodes have different rooms, only the placement
// itself can tell.
bool Recruiter::enough_may_be_there(bool patient, TimePoint now) const {
  if (mixed_) return fleet_.there_count() >= static_cast<std::size_t>(size_.min_nodes);
  std::size_t usable = patient ? fleet_.alive_count() : fleet_.there_count();
  for (const NodeId id : fleet_.excluded(now))
    usable -= fleet_.presence(id) >= (patient ? Presence::kComing : Presence::kThere) ? 1U : 0U;
  const std::int32_t needed = needed_count(size_, static_cast<std::int32_t>(usable));
  return fleet_.there_count() >= static_cast<std::size_t>(needed);
}

std::vector<NodeStatus> Recruiter::statuses(const Crew& last, TimePoint now) const {
  std::vector<NodeStatus> all;
  for (const NodeId id : fleet_.nodes()) {
    const Presence presence = fleet_.presence(id);
    all.push_back({.node = id,
                   .agent = presence == Presence::kThere    ? NodeStatus::Agent::kThere
                            : presence == Presence::kComing ? NodeStatus::Agent::kComing
                                                            : NodeStatus::Agent::kAbsent,
                   .member = last.find(id) != nullptr,
                   .excluded = fleet_.excluded(id, now),
                   .room = room_of(id)});
  }
  return all;
}

}  // namespace muster::launcher
