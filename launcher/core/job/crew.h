// The nodes and ranks of one attempt. It stores which nodes are prepared, which have workers, and which ranks
// have ended.
//
// Only stores and answers; job.h decides. Plain values. A query about one node takes constant time. A query
// about a rank takes time logarithmic in the number of nodes.
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
  // `members` must be in the order of their ranks.
  explicit Crew(std::vector<NodePlan> members);

  const std::vector<NodePlan>& members() const { return members_; }
  bool empty() const { return members_.empty(); }
  const NodePlan* find(NodeId node) const;  // nullptr: it does not take part in the attempt
  bool has(Rank rank) const { return rank >= Rank(0) && rank.value() < world_size(); }
  NodeId node_of(Rank rank) const;  // the rank must be in the attempt
  bool owns(NodeId node, Rank rank) const;
  std::int32_t world_size() const;
  // Returns the number of ranks of each member, in order. Returns an empty vector if the job does not use
  // MPI.
  std::vector<std::int32_t> rank_counts(wire::Mpi mpi) const;

  void prepared(NodeId node);
  std::size_t prepared_count() const { return prepared_.size(); }
  bool all_prepared() const { return prepared_.size() == members_.size(); }
  bool has_prepared(NodeId node) const { return prepared_.contains(node); }
  // Call when the workers start. From then on, each rank counts as living until its end is known.
  void start_workers();
  // Notes that the node's agent has started its workers.
  void started(NodeId node) { started_.insert(node); }
  bool has_started(NodeId node) const { return started_.contains(node); }
  bool ended(Rank rank) const { return ended_.contains(rank); }
  void end(Rank rank);
  // Living ranks, on nodes that have workers.
  std::size_t living_count() const { return living_count_; }
  std::vector<Rank> living() const;
  // Returns whether each rank that was started is known to have ended. If a node is lost, the ends of its
  // ranks stay unknown.
  bool all_ended() const { return unended_count_ == 0; }
  // Notes that the node has no process of the attempt any more.
  void emptied(NodeId node);
  // Notes that the node's agent is stopping its workers without being told to.
  void gives_up(NodeId node) { giving_up_.insert(node); }
  bool is_giving_up(NodeId node) const { return giving_up_.contains(node); }
  void lose(NodeId node);
  const std::set<NodeId>& with_workers() const { return with_workers_; }
  // Call when the attempt is over. After this, no rank counts as living.
  void disband() { living_count_ = unended_count_ = 0; }

  // For the journal (journal/state.h).
  template <class Archive>
  void fields(Archive& archive) {
    archive(members_, prepared_, started_, giving_up_, with_workers_, ended_, unended_count_);
  }
  // Call after reading the fields. Computes the other members from them. Returns false if the fields are
  // inconsistent.
  bool restored();

 private:
  void place_members();
  std::vector<Rank> unended_of(const NodePlan& node) const;

  std::vector<NodePlan> members_;
  std::unordered_map<NodeId, std::size_t> position_;  // in members_
  std::unordered_set<NodeId> prepared_, started_, giving_up_;
  std::set<NodeId> with_workers_;
  std::unordered_set<Rank> ended_;
  // Both count started ranks whose end is not known yet. unended_count_ counts all such ranks of the attempt.
  // living_count_ counts only the ranks on nodes that have workers.
  std::size_t unended_count_ = 0;
  std::size_t living_count_ = 0;
};

}  // namespace muster::launcher
