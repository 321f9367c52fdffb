#include "launcher/core/job/placement.h"

#include <algorithm>
#include <tuple>

namespace muster::launcher {

namespace {

using Agent = NodeStatus::Agent;

std::vector<NodePlan> with_ranks(std::vector<NodeId> nodes, std::int32_t workers_per_node) {
  std::ranges::sort(nodes);
  std::vector<NodePlan> members;
  for (const NodeId node : nodes) {
    members.push_back(
        {node, Rank(static_cast<std::int32_t>(members.size()) * workers_per_node), workers_per_node});
  }
  return members;
}

// At the beginning all are on their way, and who is there first must not decide about the ranks. A node
// without an agent has been lost while others were waited for: it comes last of all.
auto preference(const NodeStatus& status, bool first) {
  return std::tuple(status.agent == Agent::kAbsent, status.excluded, !first && status.agent != Agent::kThere,
                    !first && !status.member);
}

}  // namespace

std::int32_t needed_count(const Size& size, std::int32_t usable_count) {
  return std::clamp(usable_count, size.min_nodes, size.max_nodes);
}

Placement place(const Size& size, std::vector<NodeStatus> nodes, bool first) {
  std::ranges::sort(nodes, {}, [first](const NodeStatus& status) {
    return std::tuple(preference(status, first), status.node);
  });
  const auto usable = [first](const NodeStatus& status) {
    return !status.excluded && status.agent >= (first ? Agent::kComing : Agent::kThere);
  };
  // As many as there are, if that is enough; else as few as are needed.
  const std::int32_t count =
      needed_count(size, static_cast<std::int32_t>(std::ranges::count_if(nodes, usable)));
  nodes.resize(static_cast<std::size_t>(count));
  std::vector<NodeId> order;
  for (const NodeStatus& each : nodes) order.push_back(each.node);
  if (!std::ranges::all_of(nodes, [](const NodeStatus& each) { return each.agent == Agent::kThere; }))
    return {.members = {}, .needed = std::move(order), .reason = "agents are missing"};
  std::string reason = count < size.max_nodes ? fmt::format("{} of {} nodes are there", count, size.max_nodes)
                                              : "every agent is there";
  return {.members = with_ranks(order, size.workers_per_node), .needed = order, .reason = std::move(reason)};
}

}  // namespace muster::launcher
