// Gets a job its nodes: hires agents from the fleet where there are none, and says who takes part in the next
// attempt as soon as enough are there.
//
// The fleet knows who is there, the placement who is preferred (placement.h); the recruiter asks both, and
// has the fleet hire. Performs nothing; the time is passed in.
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

  // Who takes part after `last`, which is empty at first; nobody while agents are missing. `patient`: nodes
  // on their way are waited for, although fewer would do.
  Placement place(const Crew& last, bool patient, TimePoint now) const;
  // The nodes for whose agents place() waits.
  std::vector<NodeId> missing(const Crew& last, bool patient, TimePoint now) const;
  // One more node, without an agent, that has a place of its own from now on. Only where no node is a spare.
  NodeId add(std::int32_t slots);
  std::int32_t node_count() const { return static_cast<std::int32_t>(rooms_.size()); }
  std::int32_t place_count() const { return size_.max_nodes(); }
  std::int32_t world_size() const;  // at full size
  // How many workers the spare node will have if it is needed.
  std::int32_t likely_workers(NodeId spare) const;
  // Hires agents for the absent nodes; for excluded ones only while fewer are there than an attempt needs.
  FleetDecisions hire_absent(TimePoint now);
  // Whether fewer nodes than an attempt needs have an agent, be it on its way.
  bool too_few() const { return too_few(Fleet::Presence::kComing); }

  // What a journal keeps of it (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(size_, rooms_);
  }
  // These fields were read: what follows from them follows. False if no recruiter has them.
  bool restored();

 private:
  void compare_rooms();
  bool too_few(Fleet::Presence least) const;
  bool enough_may_be_there(bool patient, TimePoint now) const;
  std::int32_t room_of(NodeId node) const { return rooms_.at(static_cast<std::size_t>(node.value())); }
  std::vector<NodeStatus> statuses(const Crew& last, TimePoint now) const;

  JobSize size_;
  std::vector<std::int32_t> rooms_;  // by node
  bool mixed_ = false;               // they differ
  Fleet& fleet_;
};

}  // namespace muster::launcher
