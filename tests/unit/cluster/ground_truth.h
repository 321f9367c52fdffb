// What really happened to a simulated job: the faults, and who may rightly be blamed for the end of an
// attempt.
//
// Kept apart from what the job is told. A fault is open until a verdict could deal with it.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "launcher/core/job/job.h"
#include "tests/invariants.h"

namespace muster::simulation {

struct Fault {
  enum class Kind {
    kWorkerDies,
    kAgentKilled,
    kAgentPauses,   // stopped, and resumed before anybody can mind
    kAgentFreezes,  // stopped for longer than the silence limit
    kLinkCloses,
    kLinkFallsSilent,
    kAttemptRefused,    // by the node; `after` does not matter
    kExecutionRefused,  // of its last worker, the others run
    kWorkerStalls,      // and all others wait for it
    kWorkerStopped,     // by SIGSTOP; the others wait as well
    kOutOfMemory,       // a worker is killed by the kernel
  } kind{};
  Attempt attempt;  // of the job when it enters
  launcher::Phase phase{};
  Duration after{};
  NodeId node;
};
constexpr std::size_t kFaultKinds = 11;

class GroundTruth {
 public:
  explicit GroundTruth(Duration silence_limit) : silence_limit_(silence_limit) {}
  // `decisive`: the attempt cannot go on; else it may be that nobody minds.
  void happened(Fault::Kind kind, NodeId node, std::optional<Rank> rank, bool decisive, TimePoint now);
  // The launcher knows that the node's agent is gone.
  void noticed(NodeId node);
  // An attempt has ended, other than by the user: who may be blamed. Several if nobody could know who was
  // first, none if nothing happened. `members`: the nodes that took part; empty: nobody did yet, and all
  // could be to blame.
  std::vector<invariants::Culprit> culprits_of_attempt(const std::set<NodeId>& members);
  const std::vector<Fault::Kind>& history() const { return history_; }
  // Whether anything at all ever happened to this node's agent.
  bool touched(NodeId node) const { return touched_.contains(node); }

 private:
  struct Open {
    Fault::Kind kind{};
    TimePoint at;
    invariants::Culprit culprit;
    bool decisive = true;
    bool noticed = false;
  };
  Duration silence_limit_;
  std::vector<Open> open_;
  std::vector<Fault::Kind> history_;
  std::set<NodeId> touched_;
};

}  // namespace muster::simulation
