// What can happen to a job, and what it can decide to do: plain values, in and out of job.h.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/wire/messages.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

// Counts what is asked of the lineage, from 1: an answer says which question it is to.
using Question = Id<struct QuestionTag, std::uint64_t>;

// ---- Events ----
struct Began {};    // once, first
struct AgentSaid {  // its times have been translated to the launcher's clock
  NodeId node;
  Attempt attempt;
  wire::ToLauncher message;
};
struct AgentEnded {  // its process or its connection
  NodeId node;
  std::string how;
};
struct StraysEnded {};  // no process of a lost or killed agent is left on this machine
struct StraysRemain {   // some have been killed, and live on: StraysEnded may never come
  std::vector<Leftover> left;
};
struct AttemptBegun {  // answers BeginAttempt
  Attempt attempt;
  std::optional<std::uint64_t> resume_step;
  Question question{};
};
struct AttemptDenied {  // answers BeginAttempt: the checkpoint directory cannot be used, or belongs to a
                        // newer launch
  Refusal refusal;
};
struct CheckpointFound {               // answers LookForCheckpoint
  std::optional<std::int64_t> step{};  // empty: the attempt has committed none, or it cannot be known
};
struct Interrupted {
  int signal = 0;
};
struct Cancelled {   // by `launch cancel`
  bool now = false;  // without the grace
};
struct TimePassed {};  // next_deadline() has come
using Event = std::variant<Began, AgentSaid, AgentEnded, StraysEnded, StraysRemain, AttemptBegun,
                           AttemptDenied, CheckpointFound, Interrupted, Cancelled, TimePassed>;

// ---- Actions ----
struct StartAgent {
  NodeId node;
};
struct KillAgent {  // by SIGKILL; its end is not told, only the end of all that it leaves (StraysEnded)
  NodeId node;
};
struct BeginAttempt {  // take its number; answered by AttemptBegun or AttemptDenied
  std::int32_t restart_count = 0;
};
struct LookForCheckpoint {};  // the newest that this attempt has committed; answered by CheckpointFound
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
  std::variant<StartAgent, KillAgent, BeginAttempt, LookForCheckpoint, Send, Tell, Record, Finish> action;
  std::string reason;
};
using Decisions = std::vector<Decision>;

}  // namespace muster::launcher
