#include "launcher/core/job/recruiter.h"

#include <algorithm>
#include <iterator>

namespace muster::launcher {

using Presence = Fleet::Presence;

Recruiter::Recruiter(const Plan& plan, Fleet& fleet)
    : size_{.min_nodes = plan.min_nodes.value_or(static_cast<std::int32_t>(plan.nodes.size())),
            .max_nodes = static_cast<std::int32_t>(plan.nodes.size()),
            .workers_per_node = plan.nodes.front().worker_count},
      fleet_(fleet) {
  for (std::int32_t node = 0; node < plan.agent_count(); ++node) fleet_.add(NodeId(node));
}

Placement Recruiter::place(const Crew& last, TimePoint now) const {
  if (!enough_may_be_there(last, now)) return {.members = {}, .needed = {}, .reason = "agents are missing"};
  return launcher::place(size_, statuses(last, now), /*first=*/last.empty());
}

std::vector<NodeId> Recruiter::missing(const Crew& last, TimePoint now) const {
  std::vector<NodeId> missing = launcher::place(size_, statuses(last, now), /*first=*/last.empty()).needed;
  std::erase_if(missing, [this](NodeId id) { return fleet_.presence(id) == Presence::kThere; });
  return missing;
}

FleetDecisions Recruiter::hire_absent(TimePoint now) {
  FleetDecisions all;
  const std::set<NodeId> absent = fleet_.absent();
  for (const bool excluded : {false, true}) {
    if (excluded && !too_few()) break;
    for (const NodeId id : absent) {
      if (fleet_.alive(id) || fleet_.excluded(id, now) != excluded) continue;
      std::ranges::move(fleet_.hire(id, now, "the node has no agent"), std::back_inserter(all));
    }
  }
  return all;
}

// A placement costs some time per node, and is not worth asking for after each of ten thousand greetings.
bool Recruiter::enough_may_be_there(const Crew& last, TimePoint now) const {
  const bool first = last.empty();
  std::size_t usable = first ? fleet_.alive_count() : fleet_.there_count();
  for (const NodeId id : fleet_.excluded(now))
    usable -= fleet_.presence(id) >= (first ? Presence::kComing : Presence::kThere) ? 1U : 0U;
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
                   .excluded = fleet_.excluded(id, now)});
  }
  return all;
}

}  // namespace muster::launcher
