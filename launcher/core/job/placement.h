// Which nodes take part in an attempt, with which ranks, and for whose agents it waits.
//
// The first attempt waits for all nodes. A restart prefers those that are there: members of the last attempt,
// then spares; a node that is left out for a while comes last. An elastic job goes on with fewer, but not
// below its minimum. A node runs its own number of workers; a spare takes the place of an absent node, and
// its number of workers, for which it must have room. Ranks follow the numbers of the nodes. Pure.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "launcher/core/settings/plan.h"

namespace muster::launcher {

struct NodeStatus {
  NodeId node;
  enum class Agent { kAbsent, kComing, kThere } agent = Agent::kAbsent;
  bool member = false;    // of the last attempt
  bool excluded = false;  // to be used only if the job cannot do without
  std::int32_t room = std::numeric_limits<std::int32_t>::max();  // for workers
};

struct JobSize {
  std::int32_t min_nodes = 1;
  std::vector<std::int32_t> places;  // workers of each node at full size; spares come after these

  std::int32_t max_nodes() const { return static_cast<std::int32_t>(places.size()); }
};

struct Placement {
  std::vector<NodePlan> members;  // empty: wait
  std::vector<NodeId> needed;     // nodes without which there is no attempt: their agents are waited for
  std::string reason;
};

// `nodes`: all, by number. `patient`: no attempt was placed yet, and those on their way are waited for.
Placement place(const JobSize& size, std::vector<NodeStatus> nodes, bool patient);
// How many nodes must be there before place() can find members. `usable_count`: nodes that are there (if it
// is patient: or are coming) and not excluded.
std::int32_t needed_count(const JobSize& size, std::int32_t usable_count);
// How many of nodes with such room can take part together, each in a place of its own.
std::int32_t placeable_count(const JobSize& size, const std::vector<std::int32_t>& rooms);
// The most workers for which a spare with such room can be needed.
std::int32_t likely_workers(const JobSize& size, std::int32_t room);

}  // namespace muster::launcher
