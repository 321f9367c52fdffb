// Finds the nodes for a job. The recruiter hires agents for absent nodes. When enough nodes are there, it
// chooses the nodes of the next attempt.
//
// The fleet knows which nodes are there. The placement (placement.h) knows which nodes are preferred. The
// recruiter asks both, and tells the fleet for which nodes to hire agents. It starts no process and reads no
// clock; the time is an argument.
#pragma once

#include <vector>

#include "launcher/core/fleet/fleet.h"
#include "launcher/core/job/crew.h"
#include "launcher/core/job/placement.h"

namespace muster::launcher {

class Recruiter {
 public:
  // The recruiter may use all nodes of the plan. `fleet` must outlive it.
  Recruiter(const Plan& plan, Fleet& fleet);

  // Chooses the nodes for the attempt after `last`. `last` is empty before the first attempt. If agents are
  // still missing, the result has no members. If `patient` is true, the attempt waits for nodes that are on
  // their way, even if fewer nodes would be enough.
  Placement place(const Crew& last, bool patient, TimePoint now) const;
  // The nodes whose agents place() waits for.
  std::vector<NodeId> missing(const Crew& last, bool patient, TimePoint now) const;
  // Adds a node that has no agent yet, and a place for this node. Call this only for jobs without spare
  // nodes.
  NodeId add(std::int32_t slots);
  std::int32_t node_count() const { return static_cast<std::int32_t>(rooms_.size()); }
  std::int32_t place_count() const { return size_.max_nodes(); }
  std::int32_t world_size() const;  // at full size
  // How many workers the spare node would run.
  std::int32_t likely_workers(NodeId spare) const;
  // Hires agents for nodes that have none. For nodes that were excluded, it does so only while too few nodes
  // are there for an attempt.
  FleetDecisions hire_absent(TimePoint now);
  // Returns whether too few nodes for an attempt have an agent. Agents that are on their way count as there.
  bool too_few() const { return too_few(Fleet::Presence::kComing); }

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(size_, rooms_);
  }
  // Call after reading the fields. Computes the other members from them. Returns false if the fields are
  // inconsistent.
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
