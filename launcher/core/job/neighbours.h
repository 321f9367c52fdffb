// Decides which agents of an attempt keep copies of each other's checkpoints in memory.
//
// The agents form a ring. Each keeps copies of the checkpoints of its predecessor, which is on another
// machine if possible. In a new attempt, a rank may be on another node than before. Then the rank's new agent
// lacks the rank's checkpoint, and is told which agent has it. Two agents share one connection;
// launcher/io/launcher.cc makes the key of each connection. Pure.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/core/job/rendezvous.h"

namespace muster::launcher {

class Neighbours {
 public:
  struct Member {
    NodePlan plan;
    Whereabouts place;
    std::string machine;  // equal for nodes of one machine
  };
  Neighbours() = default;  // no neighbours
  // If there are fewer than two members, nobody has a neighbour. `interface` has the same meaning as for
  // meet().
  Neighbours(const std::vector<Member>& members, const std::string& interface);

  // Returns the address on which the agent of the node shall listen. Returns an empty text if there is none.
  std::string address_of(NodeId node) const;
  void prepared(NodeId node, const wire::AttemptPrepared& said);
  // Returns the neighbours of each agent, in the form in which the agent gets them when workers start. The
  // keys of the connections are not in it.
  std::map<NodeId, std::vector<wire::Neighbour>> told_to_each(
      const std::function<Incarnation(NodeId)>& incarnation_of) const;

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(ring_);
  }
  // The ring is the order in which nodes are each other's neighbours. Returns whether all of its nodes are
  // among `members`.
  bool are_among(const std::vector<NodePlan>& members) const;

 private:
  struct Place {  // in the ring
    NodePlan plan;
    std::string address;
    std::int32_t port = 0;
    std::vector<Rank> held{};
    NodeId node() const { return plan.node; }
  };
  std::vector<Place> ring_;
};

}  // namespace muster::launcher
