// Gets a job its nodes: hires agents for absent nodes, and chooses the nodes of the next attempt once enough
// are there.
//
// The fleet knows which nodes are there, the placement (placement.h) which ones are preferred; the recruiter
// asks both, and lets the fleet hire. Performs nothing; the time is passed in.
#pragma once

#include <vector>

#include "launcher/core/fleet/fleet.h"
#include "launcher/core/job/crew.h"
#include "launcher/core/job/placement.h"

namespace muster::launcher {

class Recruiter {
 public:
  // May use all nodes of the plan. `fleet` must outlive the recruiter.
  Recruiter(const Plan& plan, Fleet& fleet);

  // Chooses the nodes of the attempt after `last`, which is empty before the first attempt. Returns no
  // members while agents are missing. `patient`: waits for nodes on their way, even if fewer would be enough.
  Placement place(const Crew& last, bool patient, TimePoint now) const;
  // The nodes whose agents place() waits for.
  std::vector<NodeId> missing(const Crew& last, bool patient, TimePoint now) const;
  // Adds a node, which has no agent yet, and a place for the node. Only for jobs without spare nodes.
  NodeId add(std::int32_t slots);
  std::int32_t node_count() const { return static_cast<std::int32_t>(rooms_.size()); }
  std::int32_t place_count() const { return size_.max_nodes(); }
  std::int32_t world_size() const;  // at full size
  // How many workers the spare node would run.
  std::int32_t likely_workers(NodeId spare) const;
  // Hires agents for absent nodes; for excluded nodes only while too few nodes are there for an attempt.
  FleetDecisions hire_absent(TimePoint now);
  // Whether too few nodes for an attempt have an agent. Agents on their way count.
  bool too_few() const { return too_few(Fleet::Presence::kComing); }

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(size_, rooms_);
  }
  // Call after reading the fields: derives the other members. Returns false if the fields are inconsistent.
  bool restored();

 private:
  void compare_rooms();
  bool too_few(Fleet::Presence least) const;
  bool enough_may_be_there(bool patient, TimePoint now) const;
  std::int32_t room_of(NodeId node) const { return rooms_.at(static_cast<std::size_t>(node.value())); }
  std::vector<NodeStatus> statuses(const Crew& last, TimePoint now) const;

  JobSize size_;
  std::vector<std::int32_t> rooms_;  // by node
  bool mixed_ = false;               // the rooms differ
  Fleet& fleet_;
};

}  // namespace muster::launcher
