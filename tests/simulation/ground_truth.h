// What really happened to a simulated job, and who may rightly be blamed for the end of an attempt.
//
// Kept apart from what the launcher is told. A fault is open until a verdict could deal with it. Times are
// virtual. One of each launch; one thread.
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
    std::optional<Attempt> attempt{};  // that a refusal refuses
    bool decisive = true;              // the attempt cannot go on; else it may be that nobody minds
    TimePoint at{};                    // when the launcher could see it
    Duration length{};                 // of a silence that heals
    int exit_code = 0;  // of a worker or a refusal; 128 and the signal where one ended the worker
  };
  void happened(const Happened& what);
  // The launcher stands still until then, and hears of everything at once.
  void is_blind_until(TimePoint time) { blind_until_ = time; }
  TimePoint sees_since() const { return blind_until_; }
  // The launcher knows that the node's agent is gone. Not `missed`: it comes back before anybody needs it.
  void noticed(NodeId node, bool missed, TimePoint now);
  // An attempt has ended, other than by the user: who may be blamed. Several if nobody could know who was
  // first, none if nothing happened. `members`: the nodes that took part; empty: nobody did yet, and all
  // could be to blame.
  std::vector<Culprit> culprits_of_attempt(Attempt attempt, const std::set<NodeId>& members, TimePoint now);
  // The node gets a new agent, to which nothing has happened yet.
  void started_anew(NodeId node) { touched_.erase(node); }
  // Whether anything at all happened to this node's agent.
  bool touched(NodeId node) const { return touched_.contains(node); }
  // Whether it happened since the last attempt was judged.
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
  std::set<FaultKind> kinds_;  // of the attempt at hand
  std::set<NodeId> touched_;
  int cause_count_ = 0;
  TimePoint blind_until_{};
};

}  // namespace muster::simulation
