// Which agents of an attempt copy what ranks hold in memory from one another.
//
// In a ring, in which each keeps copies of the one before it, on another machine where there is one. An agent
// that lacks something of its ranks, because another node had them, is told who has it. Between two agents
// there is one connection. The keys are made elsewhere (launcher/io/launcher.cc). Pure.
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
    std::string machine;  // the same for nodes of one machine
  };
  Neighbours() = default;  // nobody has any
  // Fewer than two have none. `interface` as meet() takes it.
  Neighbours(const std::vector<Member>& members, const std::string& interface);

  // Where the node's agent is to listen; empty: nowhere.
  std::string address_of(NodeId node) const;
  void prepared(NodeId node, const wire::AttemptPrepared& said);
  // What each agent is told when workers start, without keys.
  std::map<NodeId, std::vector<wire::Neighbour>> told_to_each(
      const std::function<Incarnation(NodeId)>& incarnation_of) const;

  // What a journal keeps of it (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(ring_);
  }
  // Whether these are the attempt's nodes.
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
