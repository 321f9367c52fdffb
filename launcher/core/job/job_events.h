// What can happen to a job, and what it can decide to do: plain values, in and out of job.h and controller.h.
//
// What concerns agents themselves stands in fleet_events.h. An answer of the lineage names its question: one
// to an older question than the newest is dropped.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/error.h"
#include "common/wire/messages.h"
#include "launcher/core/fleet/fleet_events.h"

namespace muster::launcher {

// Counts what is asked of the lineage, from 1: an answer says which question it is to.
using Question = Id<struct QuestionTag, std::uint64_t>;

// ---- Events ----
struct Began {};       // once, first
struct AttemptBegun {  // answers BeginAttempt
  Attempt attempt;
  std::optional<std::uint64_t> resume_step;
  Question question{};
};
struct AttemptDenied {  // answers BeginAttempt
  enum class By {
    kNewerLaunch,   // has begun an attempt after ours
    kLivingLaunch,  // uses the checkpoint directory, and is not to be taken over
    kDisk,
  } by = By::kDisk;
  Error why;
  Question question{};
};
struct CheckpointFound {               // answers LookForCheckpoint
  std::optional<std::int64_t> step{};  // empty: the attempt has committed none, or it cannot be known
  Question question{};
};
struct PaceChanged {  // of a rank of the attempt
  Rank rank;
  bool slower = false;    // than the others; else no longer
  Duration busy{};        // of a step
  Duration usual{};       // of the others
  std::int64_t step = 0;  // when it was seen
};
struct Interrupted {
  int signal = 0;
};
struct Cancelled {   // by `launch cancel`
  bool now = false;  // without the grace
};
struct TimePassed {};  // next_deadline() has come
struct SecondPassed {  // once a second: however late it comes, so long was the launcher stopped or starved
  TimePoint due;
};

// Whatever comes from outside (controller.h).
using Event = std::variant<Began, AgentConnected, ConnectionClosed, ProcessEnded, AgentSaid, LeftoversSeen,
                           AttemptBegun, AttemptDenied, CheckpointFound, PaceChanged, Interrupted, Cancelled,
                           TimePassed, SecondPassed>;

// ---- Actions ----
struct BeginAttempt {  // take its number in the checkpoint directory
  Question question;
  Attempt last;            // of this job; none: it is the first
  bool take_over = false;  // from a launch that lives
};
struct LookForCheckpoint {  // the newest that this attempt has committed
  Question question;
  Attempt attempt;
};
struct Send {
  NodeId node;
  wire::ToAgent message;
};
struct Tell {  // the user, in one line
  std::string text;
};
struct Record {  // for events.jsonl: what happened, not what was decided
  std::string event;
  std::optional<Rank> rank;
  std::optional<NodeId> node;
  std::string text;
};
struct Finish {};
struct Decision {
  std::variant<StartAgent, KillAgent, AcceptConnection, CloseConnection, LookForLeftovers, BeginAttempt,
               LookForCheckpoint, Send, Tell, Record, Finish>
      action;
  std::string reason;
};
using Decisions = std::vector<Decision>;

}  // namespace muster::launcher
