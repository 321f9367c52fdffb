// What can happen to a job, and what it can decide to do: plain values, in and out of job.h and controller.h.
//
// Events and actions of agents stand in fleet_events.h. Each answer of the lineage carries the number of its
// question; the answer to any question but the newest is dropped.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/wire/messages.h"
#include "launcher/core/fleet/fleet_events.h"

namespace muster::launcher {

// Numbers the questions to the lineage, from 1.
using Question = Id<struct QuestionTag, std::uint64_t>;

// ---- Events ----
struct Began {};       // the first event of every job
struct AttemptBegun {  // answers BeginAttempt
  Attempt attempt;
  std::optional<std::uint64_t> resume_step;
  Question question{};
};
struct AttemptDenied {  // answers BeginAttempt
  enum class By {
    kNewerLaunch,   // another launch has begun an attempt after this job's
    kLivingLaunch,  // another launch uses the checkpoint directory, and may not be taken over from
    kDisk,          // the directory cannot be read or written
  } by = By::kDisk;
  Error why;
  Question question{};
};
struct CheckpointFound {               // answers LookForCheckpoint
  std::optional<std::int64_t> step{};  // empty: the attempt has committed none, or it cannot be known
  Question question{};
};
struct PaceChanged {  // a rank of the attempt has become slower than the others, or is no longer
  Rank rank;
  bool slower = false;
  Duration busy{};        // that the rank's own work of a step takes
  Duration usual{};       // that it takes the others
  std::int64_t step = 0;  // at which that was seen
  std::string part{};     // of the model that it has, if it says so
};
struct Interrupted {
  int signal = 0;
};
struct Cancelled {   // by `launch cancel`
  bool now = false;  // without the grace
};
struct NodesAdded {  // by `launch nodes add`: each gets the next number
  struct Node {
    std::string host;  // as it was given
    std::int32_t slots = 1;
  };
  std::vector<Node> nodes;
  bool now = false;  // the attempt at hand ends for them after its next commit
};
struct StacksWanted {};  // by `launch dump`: of all workers that live
struct TimePassed {};    // next_deadline() has come
struct SecondPassed {  // told once a second; as late as it comes, so long was the launcher stopped or starved
  TimePoint due;
};

// Whatever comes from outside (controller.h).
using Event = std::variant<Began, AgentConnected, ConnectionClosed, ProcessEnded, AgentSaid, LeftoversSeen,
                           AttemptBegun, AttemptDenied, CheckpointFound, PaceChanged, Interrupted, Cancelled,
                           NodesAdded, StacksWanted, TimePassed, SecondPassed>;

// ---- Actions ----
struct BeginAttempt {  // take the next attempt's number in the checkpoint directory
  Question question;
  Attempt last;            // that this job began; Attempt(): none
  bool take_over = false;  // also from a launch that lives
};
struct LookForCheckpoint {  // for the newest that `attempt` has committed
  Question question;
  Attempt attempt;
};
struct Send {
  NodeId node;
  Attempt attempt;  // that was at hand when it was decided
  wire::ToAgent message;
};
struct Tell {  // one line for the user
  std::string text;
};
struct Record {  // for events.jsonl: what happened, not what was decided
  std::string event;
  std::optional<Rank> rank{};
  std::optional<NodeId> node{};
  std::string host{};  // of the node; empty on this machine
  std::string text{};
  Attempt attempt{};              // that was at hand; none before the first
  Duration wait{};                // of "restart": until it is tried again
  std::int32_t worker_count = 0;  // of "workers_started": the node's ranks, from `rank` on
};
struct Finish {
  bool nothing_is_left = false;  // of the job; else guardians clear up
};
struct Decision {
  std::variant<StartAgent, KillAgent, AcceptConnection, CloseConnection, LookForLeftovers, BeginAttempt,
               LookForCheckpoint, Send, Tell, Record, Finish>
      action;
  std::string reason;
};
using Decisions = std::vector<Decision>;
inline Decision as_decision(FleetDecision of_fleet) {
  return std::visit([&](auto& action) { return Decision{std::move(action), std::move(of_fleet.reason)}; },
                    of_fleet.action);
}

}  // namespace muster::launcher
