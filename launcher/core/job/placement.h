// Decides which nodes take part in an attempt, with which ranks, and which agents the attempt waits for.
//
// The first attempt waits for all nodes. A restart prefers nodes that are there: members of the last attempt,
// then spares; excluded nodes come last. An elastic job continues with fewer nodes, but not below its
// minimum. A node runs its own number of workers; a spare takes the place of an absent node with that node's
// number of workers, and must have room for them. Ranks follow the node numbers. Pure.
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

// `nodes`: all nodes, by number. `patient`: no attempt was placed yet; waits for nodes that are still coming.
Placement place(const JobSize& size, std::vector<NodeStatus> nodes, bool patient);
// How many nodes must be there before place() can find members. `usable_count`: nodes that are there (or
// coming, if patient) and not excluded.
std::int32_t needed_count(const JobSize& size, std::int32_t usable_count);
// `rooms`: for how many workers each node has room. Returns how many of the nodes can take part together,
// each in a place of its own.
std::int32_t placeable_count(const JobSize& size, const std::vector<std::int32_t>& rooms);
// The most workers that a spare with this room may have to run.
std::int32_t likely_workers(const JobSize& size, std::int32_t room);

}  // namespace muster::launcher
