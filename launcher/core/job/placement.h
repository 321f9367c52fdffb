// Decides which nodes take part in an attempt, with which ranks, and which agents the attempt waits for.
//
// The first attempt waits for all nodes. A restart prefers nodes that are there. Among these, members of the
// last attempt come first, and then spares. Excluded nodes come last. An elastic job continues with fewer
// nodes, but not with fewer than its minimum. A node runs its own number of workers. A spare takes the place
// of an absent node, and runs as many workers as that node would have. It must have room for them. Ranks
// follow the node numbers. Pure.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "launcher/core/settings/plan.h"

namespace muster::launcher {

struct NodeStatus {
  NodeId node;
  enum class Agent { kAbsent, kComing, kThere } agent = Agent::kAbsent;
  bool member = false;    // took part in the last attempt
  bool excluded = false;  // used only if the job cannot do without it
  std::int32_t room = std::numeric_limits<std::int32_t>::max();  // for workers
};

struct JobSize {
  std::int32_t min_nodes = 1;
  std::vector<std::int32_t> places;  // workers of each node at full size; the nodes after these are spares

  std::int32_t max_nodes() const { return static_cast<std::int32_t>(places.size()); }
};

struct Placement {
  std::vector<NodePlan> members;  // empty: wait
  std::vector<NodeId> needed;     // nodes that the attempt cannot start without
  std::string reason;
};

// Chooses the nodes of the next attempt. `nodes` are all nodes in the order of their numbers. `patient` is
// true before the first attempt. Then place() also chooses nodes that are still coming, and the result has no
// members until all chosen nodes are there.
Placement place(const JobSize& size, std::vector<NodeStatus> nodes, bool patient);
// Returns how many nodes must be there before place() can find members. `usable_count` counts the nodes that
// are there and are not excluded. If `patient`, nodes that are coming count as well.
std::int32_t needed_count(const JobSize& size, std::int32_t usable_count);
// Returns how many of the nodes can take part together, each in a place of its own. For each node, `rooms`
// says how many workers it has room for.
std::int32_t placeable_count(const JobSize& size, const std::vector<std::int32_t>& rooms);
// Returns the largest number of workers that a spare may have to run if it has this room.
std::int32_t likely_workers(const JobSize& size, std::int32_t room);

}  // namespace muster::launcher
