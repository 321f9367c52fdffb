// Plain values for job.h and controller.h: the events of a job, and the actions that it can decide on.
//
// fleet_events.h has the events and actions of agents. Some events are answers of the lineage (io/lineage.h).
// Each has the number of its question. Only the answer to the newest question counts.
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

// The number of a question that the job asks the lineage, such as BeginAttempt. The first question has number
// 1.
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
    kNewerLaunch,   // another launch has begun a newer attempt
    kLivingLaunch,  // another launch uses the checkpoint directory, and --take-over is not given
    kDisk,          // the directory cannot be read or written
  } by = By::kDisk;
  Error why;
  Question question{};
};
struct CheckpointFound {               // answers LookForCheckpoint
  std::optional<std::int64_t> step{};  // empty: the attempt has committed none, or this is unknown
  Question question{};
};
struct PaceChanged {  // a rank of the attempt is slower than the others from now on, or no longer
  Rank rank;
  bool slower = false;
  Duration busy{};        // time of the rank's own work in a step
  Duration usual{};       // time of the other ranks' own work
  std::int64_t step = 0;  // when this was noticed
  std::string part{};     // the rank's part of the model, if reported
};
struct Interrupted {
  int signal = 0;
};
struct Cancelled {   // by `launch cancel`
  bool now = false;  // without the grace
};
struct NodesAdded {  // by `launch nodes add`: each gets the next number
  struct Node {
    std::string host;  // as given
    std::int32_t slots = 1;
  };
  std::vector<Node> nodes;
  bool now = false;  // end the current attempt for them after its next commit
};
struct StacksWanted {};  // by `launch dump`: the stacks of all living workers
struct TimePassed {};    // next_deadline() has been reached
struct SecondPassed {    // sent once a second; its delay is the time that the launcher was stopped or starved
  TimePoint due;
};

// Everything from outside (controller.h).
using Event = std::variant<Began, AgentConnected, ConnectionClosed, ProcessEnded, AgentSaid, LeftoversSeen,
                           AttemptBegun, AttemptDenied, CheckpointFound, PaceChanged, Interrupted, Cancelled,
                           NodesAdded, StacksWanted, TimePassed, SecondPassed>;

// ---- Actions ----
struct BeginAttempt {  // take the next attempt's number in the checkpoint directory
  Question question;
  Attempt last;            // the newest that this job has begun; Attempt(): none
  bool take_over = false;  // take the directory over even from a living launch
};
struct LookForCheckpoint {  // the newest that `attempt` has committed
  Question question;
  Attempt attempt;
};
struct Send {
  NodeId node;
  Attempt attempt;  // the current attempt when this was decided
  wire::ToAgent message;
};
struct Tell {  // one line for the user
  std::string text;
};
struct Record {  // for events.jsonl: something that happened, not a decision
  std::string event;
  std::optional<Rank> rank{};
  std::optional<NodeId> node{};
  std::string host{};  // the node's host; empty on this machine
  std::string text{};
  Attempt attempt{};              // the current attempt; none before the first
  Duration wait{};                // for "restart": time until the retry
  std::int32_t worker_count = 0;  // for "workers_started": the node's ranks, from `rank` on
};
struct Finish {
  bool nothing_is_left = false;  // of the job; otherwise guardians clear up
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
