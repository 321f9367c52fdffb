// The agents of a job, by node: who is there, who was heard when, who has workers, who was lost how often.
//
// Keeps what was noted and answers questions about it; decides nothing (job.h). Plain values.
#pragma once

#include <optional>
#include <vector>

#include "launcher/core/job/placement.h"

namespace muster::launcher {

class Roster {
 public:
  struct Agent {
    enum class State { kAbsent, kStarting, kJoined, kLeft } state = State::kAbsent;
    TimePoint last_heard;
    bool prepared = false;     // for the attempt at hand
    bool has_workers = false;  // told to start some, and not yet empty
    bool alive() const { return state == State::kStarting || state == State::kJoined; }
  };

  Roster(std::int32_t agent_count, const ExclusionLimits& exclusion);

  Agent& at(NodeId node) { return agents_.at(static_cast<std::size_t>(node.value())); }
  const Agent& at(NodeId node) const { return agents_.at(static_cast<std::size_t>(node.value())); }
  const std::vector<NodeId>& nodes() const { return nodes_; }
  std::vector<NodeId> nodes_with_workers() const;
  std::int32_t alive_count() const;
  bool any_workers() const { return !nodes_with_workers().empty(); }
  bool all_left() const;

  // It is absent from now on, or has left if that was `expected`, which is no loss.
  void lost(NodeId node, bool expected, TimePoint at);
  bool excluded(NodeId node, TimePoint now) const;
  std::vector<NodeStatus> status(const std::vector<NodePlan>& members, TimePoint now) const;

  std::optional<TimePoint> next_silence(Duration limit) const;
  std::vector<NodeId> silent(Duration limit, TimePoint now) const;
  void forgive_silence(TimePoint now);

 private:
  std::vector<NodeId> nodes_;
  std::vector<Agent> agents_;
  std::vector<std::vector<TimePoint>> losses_;
  ExclusionLimits exclusion_;
};

}  // namespace muster::launcher
