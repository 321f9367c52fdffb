// Decides which agents of an attempt keep copies of each other's checkpoints in memory.
//
// The agents form a ring. Each keeps copies of the checkpoints of its predecessor, which is on another
// machine if possible. An agent that lacks a checkpoint of its ranks, because another node had these ranks
// before, learns which agent has it. Two agents share one connection; launcher/io/launcher.cc makes the key
// of each connection. Pure.
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
  // Fewer than two members have no neighbours. `interface`: as for meet().
  Neighbours(const std::vector<Member>& members, const std::string& interface);

  // The address that the node's agent shall listen on; empty: none.
  std::string address_of(NodeId node) const;
  void prepared(NodeId node, const wire::AttemptPrepared& said);
  // The neighbours of each agent, as it learns them when workers start; without keys.
  std::map<NodeId, std::vector<wire::Neighbour>> told_to_each(
      const std::function<Incarnation(NodeId)>& incarnation_of) const;

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(ring_);
  }
  // Whether all nodes of the ring are among `members`.
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
