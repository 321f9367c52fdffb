// The nodes and ranks of one attempt: who is prepared, where workers are, which ranks have ended.
//
// Keeps what was noted and answers questions about it; decides nothing (job.h). Plain values; a question
// about one node takes constant time, about one rank the logarithm of the number of nodes.
#pragma once

#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "launcher/core/settings/plan.h"

namespace muster::launcher {

class Crew {
 public:
  Crew() = default;
  // `members`: in the order of their ranks.
  explicit Crew(std::vector<NodePlan> members);

  const std::vector<NodePlan>& members() const { return members_; }
  bool empty() const { return members_.empty(); }
  const NodePlan* find(NodeId node) const;  // nullptr: it takes no part in the attempt
  bool has(Rank rank) const { return rank >= Rank(0) && rank.value() < world_size(); }
  NodeId node_of(Rank rank) const;  // of a rank that it has
  bool owns(NodeId node, Rank rank) const;
  std::int32_t world_size() const;
  // Of each member, in their order; none where there is no MPI.
  std::vector<std::int32_t> rank_counts(wire::Mpi mpi) const;

  void prepared(NodeId node);
  std::size_t prepared_count() const { return prepared_.size(); }
  bool all_prepared() const { return prepared_.size() == members_.size(); }
  bool has_prepared(NodeId node) const { return prepared_.contains(node); }
  // From now on every rank lives that has not ended.
  void start_workers();
  // The agent has said so.
  void started(NodeId node) { started_.insert(node); }
  bool has_started(NodeId node) const { return started_.contains(node); }
  bool ended(Rank rank) const { return ended_.contains(rank); }
  void end(Rank rank);
  // On nodes that have workers.
  std::size_t living_count() const { return living_count_; }
  std::vector<Rank> living() const;
  // Whether each rank that was started is known to have ended: one of a lost node never is.
  bool all_ended() const { return unended_count_ == 0; }
  // No process of the attempt is left on the node.
  void emptied(NodeId node);
  // Its agent stops its workers, which nobody has told it to.
  void gives_up(NodeId node) { giving_up_.insert(node); }
  bool is_giving_up(NodeId node) const { return giving_up_.contains(node); }
  void lose(NodeId node);
  const std::set<NodeId>& with_workers() const { return with_workers_; }
  // The attempt is over: no rank counts as living.
  void disband() { living_count_ = unended_count_ = 0; }

  // What a journal keeps of it (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(members_, prepared_, started_, giving_up_, with_workers_, ended_, unended_count_);
  }
  // These fields were read: what follows from them follows. False if no crew has them.
  bool restored();

 private:
  void place_members();
  std::vector<Rank> unended_of(const NodePlan& node) const;

  std::vector<NodePlan> members_;
  std::unordered_map<NodeId, std::size_t> position_;  // in members_
  std::unordered_set<NodeId> prepared_, started_, giving_up_;
  std::set<NodeId> with_workers_;
  std::unordered_set<Rank> ended_;
  // Of ranks that were started: all of which no end is known, and those of them on nodes that have workers.
  std::size_t unended_count_ = 0;
  std::size_t living_count_ = 0;
};

}  // namespace muster::launcher
