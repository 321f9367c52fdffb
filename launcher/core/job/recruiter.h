// Gets a job its nodes: hires agents from the fleet where there are none, and says who takes part in the next
// attempt as soon as enough are there.
//
// The fleet knows who is there, the placement who is preferred (placement.h); the recruiter asks both.
// Pure; the time is passed in.
#pragma once

#include <vector>

#include "launcher/core/fleet/fleet.h"
#include "launcher/core/job/crew.h"
#include "launcher/core/job/placement.h"

namespace muster::launcher {

class Recruiter {
 public:
  // All nodes of the plan may be used. `fleet` outlives it.
  Recruiter(const Plan& plan, Fleet& fleet);

  const Size& size() const { return size_; }
  // Who takes part after `last`, which is empty at first; nobody while agents are missing.
  Placement place(const Crew& last, TimePoint now) const;
  // The nodes for whose agents place() waits.
  std::vector<NodeId> missing(const Crew& last, TimePoint now) const;
  // Hires agents for the absent nodes; for excluded ones only if the job cannot do without them.
  FleetDecisions hire_absent(TimePoint now);
  // Whether fewer nodes than an attempt needs have an agent.
  bool too_few() const { return fleet_.alive_count() < static_cast<std::size_t>(size_.min_nodes); }

 private:
  bool enough_may_be_there(const Crew& last, TimePoint now) const;
  std::vector<NodeStatus> statuses(const Crew& last, TimePoint now) const;

  Size size_;
  Fleet& fleet_;
};

}  // namespace muster::launcher
