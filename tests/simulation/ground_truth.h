// Knows what really happened to a simulated job, and which ranks or nodes a verdict may blame.
//
// The launcher never sees this. A fault is open until a verdict could deal with it. Times are virtual. One
// object for each launch; one thread.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "tests/simulation/invariants.h"
#include "tests/simulation/script.h"

namespace muster::simulation {

class GroundTruth {
 public:
  explicit GroundTruth(Duration silence_limit) : silence_limit_(silence_limit) {}
  struct Happened {
    FaultKind kind{};
    NodeId node;
    std::optional<Rank> rank{};
    std::optional<Attempt> attempt{};  // for a refusal: the refused attempt
    bool decisive = true;              // the attempt cannot go on; if false, the fault may have no effect
    TimePoint at{};                    // when the launcher could see it
    Duration length{};                 // of a temporary silence
    int exit_code = 0;                 // of a worker or a refusal; 128 plus the signal that ended the worker
  };
  void happened(const Happened& what);
  // The launcher is stopped until then, and then learns everything at once.
  void is_blind_until(TimePoint time) { blind_until_ = time; }
  TimePoint sees_since() const { return blind_until_; }
  // The launcher knows that the node's agent is gone. `missed` is false if the agent comes back before the
  // job needs it.
  void noticed(NodeId node, bool missed, TimePoint now);
  // An attempt has ended, not by the user: the culprits that a verdict may name. Several if nothing shows
  // which was first; none if nothing happened. `members`: the nodes of the attempt; empty: none took part
  // yet, so any node may be the culprit.
  std::vector<Culprit> culprits_of_attempt(Attempt attempt, const std::set<NodeId>& members, TimePoint now);
  // The node gets a new agent, without faults yet.
  void started_anew(NodeId node) { touched_.erase(node); }
  // Whether any fault hit this node's agent.
  bool touched(NodeId node) const { return touched_.contains(node); }
  // Whether a fault of this kind happened since the last verdict.
  bool any(FaultKind kind) const { return kinds_.contains(kind); }
  void judged() { kinds_.clear(); }
  int cause_count() const { return cause_count_; }  // of restarts

 private:
  struct Open {
    Happened what;
    Culprit culprit;
    bool noticed = false;
  };
  bool may_precede(const Happened& what, const Happened& first) const;
  void forget_healed(TimePoint now);

  Duration silence_limit_;
  std::vector<Open> open_;
  std::set<FaultKind> kinds_;  // of the current attempt
  std::set<NodeId> touched_;
  int cause_count_ = 0;
  TimePoint blind_until_{};
};

}  // namespace muster::simulation
