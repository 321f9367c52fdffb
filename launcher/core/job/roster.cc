#include "launcher/core/job/roster.h"

#include <algorithm>

namespace muster::launcher {

using State = Roster::Agent::State;

Roster::Roster(std::int32_t agent_count, const ExclusionLimits& exclusion)
    : agents_(static_cast<std::size_t>(agent_count)), losses_(agents_.size()), exclusion_(exclusion) {
  for (std::int32_t node = 0; node < agent_count; ++node) nodes_.emplace_back(node);
}

std::vector<NodeId> Roster::nodes_with_workers() const {
  std::vector<NodeId> found;
  for (const NodeId node : nodes_) {
    if (at(node).has_workers) found.push_back(node);
  }
  return found;
}

std::int32_t Roster::alive_count() const {
  return static_cast<std::int32_t>(std::ranges::count_if(agents_, &Agent::alive));
}

bool Roster::all_left() const {
  return std::ranges::all_of(agents_, [](const Agent& each) { return each.state == State::kLeft; });
}

void Roster::lost(NodeId node, bool expected, TimePoint at_time) {
  at(node) = Agent{.state = expected ? State::kLeft : State::kAbsent, .last_heard = {}};
  if (!expected) losses_.at(static_cast<std::size_t>(node.value())).push_back(at_time);
}

bool Roster::excluded(NodeId node, TimePoint now) const {
  return is_excluded(losses_.at(static_cast<std::size_t>(node.value())), exclusion_, now);
}

std::vector<NodeStatus> Roster::status(const std::vector<NodePlan>& members, TimePoint now) const {
  using Presence = NodeStatus::Agent;
  std::vector<NodeStatus> all;
  for (const NodeId node : nodes_) {
    const State state = at(node).state;
    all.push_back({.agent = state == State::kJoined     ? Presence::kThere
                            : state == State::kStarting ? Presence::kComing
                                                        : Presence::kNone,
                   .member = std::ranges::find(members, node, &NodePlan::node) != members.end(),
                   .excluded = excluded(node, now)});
  }
  return all;
}

std::optional<TimePoint> Roster::next_silence(Duration limit) const {
  std::optional<TimePoint> next;
  for (const Agent& each : agents_) {
    if (each.alive() && (!next || each.last_heard + limit < *next)) next = each.last_heard + limit;
  }
  return next;
}

std::vector<NodeId> Roster::silent(Duration limit, TimePoint now) const {
  std::vector<NodeId> found;
  for (const NodeId node : nodes_) {
    if (at(node).alive() && at(node).last_heard + limit <= now) found.push_back(node);
  }
  return found;
}

void Roster::forgive_silence(TimePoint now) {
  for (Agent& each : agents_) each.last_heard = std::max(each.last_heard, now);
}

}  // namespace muster::launcher
