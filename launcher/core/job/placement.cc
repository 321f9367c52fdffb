#include "launcher/core/job/placement.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace muster::launcher {

namespace {

using Agent = NodeStatus::Agent;

// Returns a key for the order in which nodes are chosen. `patient` is true before the first attempt, while
// nodes are still arriving. Then the key does not depend on which nodes have arrived yet, because the order
// of arrival must not decide the ranks. A node without an agent was lost in the meantime, and comes last.
auto preference(const NodeStatus& status, bool patient) {
  return std::tuple(status.agent == Agent::kAbsent, status.excluded,
                    !patient && status.agent != Agent::kThere, !patient && !status.member);
}

// A set of nodes that can all take part, each in a place of its own. A place is a number of workers. By
// Hall's theorem, there are enough places if this holds for each n: there are at least as many places for
// fewer than n workers as there are nodes with room for fewer than n workers. Such sets are a matroid. So if
// nodes are taken in the order of preference, the result is the most preferred set.
class Seating {
 public:
  explicit Seating(const JobSize& size) : most_(size.places.size()) {
    for (const std::int32_t workers : size.places) ++places_[workers];
  }
  bool take(std::int32_t room) {
    if (taken_ == most_) return false;
    std::size_t smaller_places = 0;
    std::size_t smaller_rooms = 0;
    // Some nodes fit only into small places. For each size of place, this checks that there are enough
    // smaller places for the nodes that fit only into smaller places.
    for (const auto& [workers, count] : places_) {
      if (workers > room && smaller_rooms + 1 > smaller_places) return false;
      smaller_places += count;
      smaller_rooms += rooms_[workers];
    }
    const auto above = places_.upper_bound(room);
    if (above == places_.begin()) return false;
    ++rooms_[std::prev(above)->first];
    ++taken_;
    return true;
  }

 private:
  std::size_t most_;
  std::size_t taken_ = 0;
  std::map<std::int32_t, std::size_t> places_;  // number of places, by their count of workers
  std::map<std::int32_t, std::size_t> rooms_;   // number of nodes by the largest place that they fit
};

bool has_own_place(const JobSize& size, const NodeStatus& status) {
  return status.node.value() < size.max_nodes();
}

// A place is a number of workers that one node of the job has to run. Each node gets its own place, if it has
// one. Spares get the remaining places. The spare with the fewest slots chooses first, so that each gets a
// place.
std::map<NodeId, std::int32_t> workers_of(const JobSize& size, std::vector<NodeStatus> chosen) {
  std::map<NodeId, std::int32_t> workers;
  std::multiset<std::int32_t> free(size.places.begin(), size.places.end());
  for (const NodeStatus& each : chosen) {
    if (!has_own_place(size, each)) continue;
    const std::int32_t own = size.places.at(static_cast<std::size_t>(each.node.value()));
    workers[each.node] = own;
    free.erase(free.find(own));
  }
  std::erase_if(chosen, [&](const NodeStatus& each) { return has_own_place(size, each); });
  std::ranges::sort(chosen, {}, [](const NodeStatus& each) { return std::pair(each.room, each.node); });
  for (const NodeStatus& spare : chosen) {
    const auto place = std::prev(free.upper_bound(spare.room));
    workers[spare.node] = *place;
    free.erase(place);
  }
  return workers;
}

std::vector<NodePlan> with_ranks(const std::map<NodeId, std::int32_t>& workers) {
  std::vector<NodePlan> members;
  std::int32_t rank = 0;
  for (const auto& [node, count] : workers) {
    members.push_back({node, Rank(rank), count});
    rank += count;
  }
  return members;
}

}  // namespace

std::int32_t needed_count(const JobSize& size, std::int32_t usable_count) {
  return std::clamp(usable_count, size.min_nodes, size.max_nodes());
}

std::int32_t placeable_count(const JobSize& size, const std::vector<std::int32_t>& rooms) {
  Seating seating(size);
  return static_cast<std::int32_t>(
      std::ranges::count_if(rooms, [&](std::int32_t room) { return seating.take(room); }));
}

std::int32_t likely_workers(const JobSize& size, std::int32_t room) {
  std::int32_t most = 1;
  for (const std::int32_t workers : size.places) {
    if (workers <= room) most = std::max(most, workers);
  }
  return most;
}

Placement place(const JobSize& size, std::vector<NodeStatus> nodes, bool patient) {
  std::ranges::sort(nodes, {}, [patient](const NodeStatus& status) {
    return std::tuple(preference(status, patient), status.node);
  });
  const auto usable = [patient](const NodeStatus& status) {
    return !status.excluded && status.agent >= (patient ? Agent::kComing : Agent::kThere);
  };
  std::vector<std::int32_t> rooms;
  for (const NodeStatus& each : nodes) {
    if (usable(each)) rooms.push_back(each.room);
  }
  // If at least min_nodes of the usable nodes can take part together, chooses as many usable nodes as
  // possible. If fewer can, the attempt has to wait for other nodes. Then this chooses only min_nodes nodes,
  // so that the attempt waits for as few nodes as possible.
  const auto count = static_cast<std::size_t>(needed_count(size, placeable_count(size, rooms)));
  Seating seating(size);
  std::vector<NodeStatus> chosen;
  for (const NodeStatus& each : nodes) {
    if (chosen.size() < count && seating.take(each.room)) chosen.push_back(each);
  }
  std::vector<NodeId> order;
  for (const NodeStatus& each : chosen) order.push_back(each.node);
  if (!std::ranges::all_of(chosen, [](const NodeStatus& each) { return each.agent == Agent::kThere; }))
    return {.members = {}, .needed = std::move(order), .reason = "agents are missing"};
  std::string reason = count < size.places.size()
                           ? fmt::format("{} of {} nodes are there", count, size.max_nodes())
                           : "every agent is there";
  return {.members = with_ranks(workers_of(size, std::move(chosen))),
          .needed = order,
          .reason = std::move(reason)};
}

}  // namespace muster::launcher
