// Whose fault it was, and what the job's exit code is: decided from the facts of one attempt. Pure.
//
// The first failing worker is the culprit, by the time at which its end was seen, corrected to the launcher's
// clock; whoever ended after the workers had been told to stop is a victim. docs/operations.md lists the exit
// codes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/ids.h"

namespace muster::launcher {

constexpr int kExitUsage = 2;
constexpr int kExitNodesMissing = 69;
constexpr int kExitInternal = 125;

struct WorkerEnd {
  Rank rank;
  NodeId node;
  std::int32_t exit_code = 0;  // if signal is 0
  std::int32_t signal = 0;
  TimePoint at;
  bool after_stop = false;
  std::string message;  // of its error file
  std::vector<std::string> last_lines;
  bool failed() const { return exit_code != 0 || signal != 0; }
};

// An agent that is gone, and its workers with it.
struct AgentLoss {
  NodeId node;
  TimePoint at;
  std::string how;  // "its agent was killed by SIGKILL"
};

// The attempt, or the job, cannot go on for a reason that restarting would not change.
struct Refusal {
  enum class Kind { kCannotStart, kFenced } kind = Kind::kCannotStart;
  std::optional<NodeId> node;
  int exit_code = kExitInternal;
  std::string message;
};

struct AttemptFacts {
  std::int32_t world_size = 0;
  bool started = false;  // the agents were told to start the workers
  std::vector<WorkerEnd> ends;
  std::vector<AgentLoss> losses;
  std::optional<Refusal> refusal;
  std::optional<int> interrupted_by;  // a signal from the user
};

struct Verdict {
  enum class Kind {
    kSucceeded,
    kWorkerFailed,
    kAgentLost,
    kRefused,
    kInterrupted,
    kIncomplete
  } kind = Kind::kIncomplete;
  int exit_code = kExitInternal;
  std::string origin;                // worker, launcher, user, or none on success
  std::string cause;                 // one clause: "rank 2 (node1) was killed by SIGKILL"
  std::optional<WorkerEnd> culprit;  // of kWorkerFailed, and of what came of one
  std::optional<NodeId> node;
  std::int32_t collateral_count = 0;  // workers that failed too, or were stopped, because of the culprit
  bool restart_may_help() const {
    return kind == Kind::kWorkerFailed || kind == Kind::kAgentLost || kind == Kind::kIncomplete;
  }
};

Verdict judge(const AttemptFacts& facts);

// A failed attempt that would have been repeated, had the user not stopped the job: the user's exit code,
// with the culprit.
Verdict stopped_after(const Verdict& failed, int signal);
// `end` is why the attempt that was to repeat the failed one never ran: it, with the culprit. The user's
// input was right once, so a refusal is the launcher's own failure.
Verdict ended_after(const Verdict& failed, const Verdict& end);
// Of a failure before anything runs: kExitUsage if another path would do, else kExitInternal.
int exit_code_of_path_error(ErrorCode code);

// The exit code that the launcher gives for a worker's end: its own, 128 + signal, or 1 where its own means a
// verdict of the launcher.
int exit_code_for(const WorkerEnd& end);
std::string signal_name(int signal);
// "exited with code 3", "was killed by SIGKILL"
std::string end_text(const WorkerEnd& end);
// The message in a torchrun error file, or "" if there is none to be found.
std::string message_of_error_file(std::string_view json_text);

}  // namespace muster::launcher
