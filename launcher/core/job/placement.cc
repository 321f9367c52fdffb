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
  return std::tuple(status.agent == Agent::kNone, status.excluded, !first && status.agent != Agent::kThere,
                    !first && !status.member);
}

}  // namespace

Placement place(const Size& size, const std::vector<NodeStatus>& nodes, bool first) {
  const auto status = [&](NodeId node) { return nodes.at(static_cast<std::size_t>(node.value())); };
  std::vector<NodeId> order;
  for (std::size_t i = 0; i < nodes.size(); ++i) order.push_back(NodeId(static_cast<std::int32_t>(i)));
  std::ranges::sort(order, {},
                    [&](NodeId node) { return std::tuple(preference(status(node), first), node); });
  const auto usable = [&](NodeId node) {
    return !status(node).excluded && status(node).agent >= (first ? Agent::kComing : Agent::kThere);
  };
  // As many as there are, if that is enough; else as few as are needed.
  const auto usable_count = static_cast<std::int32_t>(std::ranges::count_if(order, usable));
  const std::int32_t count = std::clamp(usable_count, size.min_nodes, size.max_nodes);
  order.resize(static_cast<std::size_t>(count));
  if (!std::ranges::all_of(order, [&](NodeId node) { return status(node).agent == Agent::kThere; }))
    return {.members = {}, .needed = std::move(order), .reason = "agents are missing"};
  std::string reason = count < size.max_nodes ? fmt::format("{} of {} nodes are there", count, size.max_nodes)
                                              : "every agent is there";
  return {.members = with_ranks(order, size.workers_per_node), .needed = order, .reason = std::move(reason)};
}

bool is_excluded(const std::vector<TimePoint>& losses, const ExclusionLimits& limits, TimePoint now) {
  if (losses.size() < 2) return false;
  const TimePoint last = losses.back();
  return last - losses[losses.size() - 2] <= limits.window && now < last + limits.exclusion;
}

}  // namespace muster::launcher
