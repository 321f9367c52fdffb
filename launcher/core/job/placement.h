// Which nodes take part in an attempt, with which ranks, and for whose agents it waits.
//
// The first attempt waits for all nodes. A restart prefers those that are there: members of the last attempt,
// then spares; a node that is left out for a while comes last. An elastic job goes on with fewer, but not
// below its minimum. Ranks follow the numbers of the nodes. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/settings/plan.h"

namespace muster::launcher {

struct NodeStatus {
  NodeId node;
  enum class Agent { kAbsent, kComing, kThere } agent = Agent::kAbsent;
  bool member = false;    // of the last attempt
  bool excluded = false;  // to be used only if the job cannot do without
};

struct Size {
  std::int32_t min_nodes = 1;
  std::int32_t max_nodes = 1;
  std::int32_t workers_per_node = 1;
};

struct Placement {
  std::vector<NodePlan> members;  // empty: wait
  std::vector<NodeId> needed;     // nodes without which there is no attempt: their agents are waited for
  std::string reason;
};

// `nodes`: all, by number. `first`: no attempt was placed yet.
Placement place(const Size& size, std::vector<NodeStatus> nodes, bool first);
// How many nodes must be there before place() can find members. `usable_count`: nodes that are there (before
// the first attempt: or are coming) and not excluded.
std::int32_t needed_count(const Size& size, std::int32_t usable_count);

}  // namespace muster::launcher
