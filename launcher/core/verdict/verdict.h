// The verdict on one attempt. It says what caused the failure, and has the exit code of the job. It is
// decided from the facts about the attempt. Pure.
//
// The culprit is the worker that failed first. A worker's failure has the time at which the agent saw the
// worker end, converted to the launcher's clock. Victims cannot be the culprit. The victims are
// - workers that ended after the workers were told to stop;
// - workers that report a lost peer, if another worker failed by itself or left with 0.
// docs/reference lists classes and exit codes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/ids.h"
#include "launcher/core/text/node_names.h"
#include "launcher/core/verdict/hang.h"
#include "launcher/core/verdict/worker_end.h"

namespace muster::launcher {

constexpr int kExitUsage = 2;
constexpr int kExitNodesMissing = 69;
constexpr int kExitPreempted = 75;
constexpr int kExitTimeOut = 124;
constexpr int kExitInternal = 125;
constexpr int kExitOutOfMemory = 253;

// A worker that reports a lost peer can end earlier than the peer, but by no more than this. A big process
// closes its connections long before it has ended, above all if it dumps core.
constexpr Duration kPeerWindow = std::chrono::seconds(3);

// The way in which the user asked for the job's end. It is a signal, or `launch cancel`, which counts as
// SIGINT.
struct StopWish {
  int signal = 0;
  bool cancelled = false;
};

// The loss of an agent and its workers.
struct AgentLoss {
  NodeId node;
  TimePoint at;
  std::string how;             // "its agent was killed by SIGKILL"
  bool had_joined = false;     // the agent had sent Hello, and the job had not given it up
  bool out_of_memory = false;  // the kernel killed the agent because memory ran out
};

// Says why the attempt or the job cannot go on. recovery.h decides whether a later attempt may succeed.
struct Refusal {
  enum class Kind {
    kCannotStart,
    kUnreachable,  // over one network; another one is tried
    kFenced,
    kTooFewNodes
  } kind = Kind::kCannotStart;
  std::optional<NodeId> node;
  int exit_code = kExitInternal;
  std::string message;
  // If the nodes are on several hosts, this has the message of each node.
  std::map<NodeId, std::string> by_node{};
};

// A worker that is still alive after a SIGKILL.
struct Unkillable {
  Rank rank;
  NodeId node;
  std::int32_t pid = 0;
  std::string what;
};

// A rank that reports no steps, and whose main thread stays in the same frame.
struct StillRank {
  Stall stall;
  std::string frame;
};

struct AttemptFacts {
  std::int32_t world_size = 0;
  bool chose_python = false;         // launch chose the Python of the program
  std::optional<TimePoint> started;  // time of the command to start, later of the newest answer to it
  bool refused_by_node = false;      // a node refused the attempt, and therefore counts as lost
  std::vector<WorkerEnd> ends;
  std::map<Rank, std::int64_t> steps;  // the newest step of each rank
  bool stepped = false;                // a rank made a step in this attempt
  bool shrunk = false;                 // the attempt has fewer ranks than the job may have
  std::vector<AgentLoss> losses;
  std::optional<Refusal> refusal;
  std::optional<StopWish> interrupted_by;
  Hang hang;
  bool hangs = false;  // the attempt was stopped because of a hang
  TrainingGroups groups;
  std::vector<Unkillable> unkillable;
  // Other processes that are still alive after a SIGKILL. Each text is like "process 12 (sudo, uid 0) ...".
  std::vector<std::string> leftovers;
  bool notice_given = false;  // workers were told to save and leave
  StopWish notice{};          // who gave the notice; signal 0: the time limit
  bool committed_on_notice = false;
  bool told_preempted = false;        // a rank reported that it leaves because of the notice
  bool out_of_time = false;           // the time limit has passed
  bool grows = false;                 // stopped so that added nodes take part in the next attempt
  bool first = false;                 // no attempt of the job came before
  std::map<Rank, StillRank> still{};  // ranks without steps that do not move
};

struct Verdict {
  enum class Kind {  // the class of the cause; see name_of()
    kSucceeded,
    kExit,
    kSignal,
    kOutOfMemory,
    kHang,
    kGpu,
    kDiskFull,
    kNodeLost,
    kPreempted,
    kTimeLimit,
    kRefused,
    kInterrupted,
    kCancelled,
    kInternal,
    kGrown,  // ended because nodes were added
  } kind = Kind::kInternal;
  int exit_code = kExitInternal;
  std::string origin;                // "worker", "launcher", "user", or "none" on success
  std::string cause;                 // one clause: "rank 2 (node1) was killed by SIGKILL"
  std::optional<WorkerEnd> culprit;  // the end of the worker to blame, if known
  std::optional<Rank> rank;          // the rank to blame
  std::vector<Rank> suspects;        // for a hang: the candidates, if no rank can be singled out
  std::optional<NodeId> node;
  std::optional<TimePoint> at;  // time of the failure, or of a hanging rank's last progress; launcher's clock
  std::optional<std::int64_t> step;   // newest step of `rank`, or of any rank if `rank` reported none
  std::vector<std::string> evidence;  // one fact per line
  std::string hint;                   // advice, or ""
  std::int32_t collateral_count = 0;  // workers that failed too, or were stopped, because of the culprit
  std::vector<Rank> collateral;       // the ranks among them whose end is known
  Duration lived{};                   // from the start of the workers to `at`
  bool refused_by_node = false;       // a node refused the attempt, and therefore counts as lost
  bool stopped_from_outside = false;  // for a hang: the rank was stopped or frozen
  bool cannot_heal = false;           // a restart would fail, too, or nothing is left to do
  bool at_start = false;              // failed before the first step of an attempt at full size
  enum class GaveUp { kNot, kNoProgress, kBudget } gave_up = GaveUp::kNot;
  std::string final_because;  // why the job does not restart although restarts are left, or ""
  bool lost_before_start =
      false;                // a node was lost after its agent had joined, before any worker was started
  bool never_came = false;  // the agent of the node to blame could not be started

  // True if the failure is one of a worker or a node. False if the user asked for the end, or if a restart
  // would be refused.
  bool restart_may_help() const;
  // Returns whether the culprit exited with 0, although another rank still needed it.
  bool is_early_leave() const;
  std::string cause_and_step() const;  // "rank 2 (node1) was killed by SIGKILL at step 57"
};

std::string_view name_of(Verdict::Kind kind);  // "out_of_memory"
std::string name_of(const StopWish& wish);     // "SIGINT"

// Returns the cause in the form for a line that begins with "stopped" or "cancelled". So "stopped by SIGINT"
// becomes "by SIGINT". Other causes stay as they are.
std::string_view cause_of_end(std::string_view cause);

// Returns whether the worker left because it was told to save and leave.
bool left_on_notice(bool notice_given, const WorkerEnd& end);

// Returns the verdict about an attempt. The cause and the evidence call each node by its name in `names`.
Verdict judge(const AttemptFacts& facts, const NodeNames& names = {});

// Returns the verdict of a job that the user stopped before it could restart. It is the verdict `failed`, but
// with the exit code of the user's stop.
Verdict stopped_after(const Verdict& failed, const StopWish& wish);
// Returns the verdict of a job that reached its time limit before it could restart. It is the verdict
// `failed`, but with exit code 124.
Verdict out_of_time_after(const Verdict& failed, bool committed_on_notice);
// A job failed with the verdict `failed`, and was to restart. Before the restart, it ended with the verdict
// `end`. Returns the verdict of this job, which is `end` with the culprit of `failed`. If `end` is a refusal,
// it counts as the launcher's own failure, because an earlier attempt accepted the user's input.
Verdict ended_after(const Verdict& failed, const Verdict& end);
// Returns the exit code if a path cannot be used and nothing has run yet. It is kExitUsage if another path
// could work. Otherwise it is kExitInternal.
int exit_code_of_path_error(ErrorCode code);

}  // namespace muster::launcher
