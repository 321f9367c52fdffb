// Whose fault it was, and what the job's exit code is: decided from the facts of one attempt. Pure.
//
// The first failing worker is the culprit, by the time at which its end was seen, corrected to the launcher's
// clock; whoever ended after the workers had been told to stop is a victim, and so is a worker that complains
// of a lost peer while another fails by itself, or has left with 0. docs/reference lists classes and exit
// codes.
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

// Who complains of a lost peer may be seen to end before that peer: a big process, one that dumps core above
// all, lets go of its connections long before it has ended.
constexpr Duration kPeerWindow = std::chrono::seconds(3);

// Who wants the end of the job: a signal of the user's, or `launch cancel`, which counts as a SIGINT.
struct StopWish {
  int signal = 0;
  bool cancelled = false;
};

// An agent that was lost, and its workers with it.
struct AgentLoss {
  NodeId node;
  TimePoint at;
  std::string how;             // "its agent was killed by SIGKILL"
  bool had_joined = false;     // the agent had said Hello, and was not given up by the job
  bool out_of_memory = false;  // the kernel killed the agent for want of memory
};

// The attempt, or the job, cannot go on for a reason that restarting would not change.
struct Refusal {
  enum class Kind {
    kCannotStart,
    kUnreachable,  // by one network, and another is tried
    kFenced,
    kTooFewNodes
  } kind = Kind::kCannotStart;
  std::optional<NodeId> node;
  int exit_code = kExitInternal;
  std::string message;
  // Of nodes on hosts of their own, what each said.
  std::map<NodeId, std::string> by_node{};
};

// A worker that lives on after SIGKILL.
struct Unkillable {
  Rank rank;
  NodeId node;
  std::int32_t pid = 0;
  std::string what;
};

struct AttemptFacts {
  std::int32_t world_size = 0;
  std::optional<TimePoint> started;  // when the agents were told to start the workers, and then said so
  bool refused_by_node = false;      // a node refused the attempt, and counts as lost for that
  std::vector<WorkerEnd> ends;
  std::map<Rank, std::int64_t> steps;  // the newest that each rank has reported
  bool stepped = false;                // some rank made a step in this attempt
  bool shrunk = false;                 // the attempt has fewer ranks than the job may have
  std::vector<AgentLoss> losses;
  std::optional<Refusal> refusal;
  std::optional<StopWish> interrupted_by;
  Hang hang;
  bool hangs = false;  // the attempt was stopped because of a hang
  TrainingGroups groups;
  std::vector<Unkillable> unkillable;
  // Other processes that live on after SIGKILL: "process 12 (sudo, uid 0) ..."
  std::vector<std::string> leftovers;
  bool notice_given = false;  // to save and leave
  StopWish notice{};          // whose; signal 0: the time limit's
  bool committed_on_notice = false;
  bool told_preempted = false;  // a rank said that it leaves on notice
  bool out_of_time = false;     // the time limit has passed
  bool grows = false;           // it was stopped so that added nodes take part in the next
};

struct Verdict {
  enum class Kind {  // the class of the cause; name_of() names it
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
    kGrown,  // it was ended for nodes that had been added
  } kind = Kind::kInternal;
  int exit_code = kExitInternal;
  std::string origin;                // worker, launcher, user, or none on success
  std::string cause;                 // one clause: "rank 2 (node1) was killed by SIGKILL"
  std::optional<WorkerEnd> culprit;  // how it ended, if a worker is to blame and its end is known
  std::optional<Rank> rank;          // to blame
  std::vector<Rank> suspects;        // of a hang, where the evidence singles out none of these
  std::optional<NodeId> node;
  std::optional<TimePoint> at;  // of the failure, or when a rank that hangs last got on; launcher's clock
  std::optional<std::int64_t> step;   // the newest of `rank`, or of any rank if it reported none
  std::vector<std::string> evidence;  // a line each
  std::string hint;                   // what to do about it, or ""
  std::int32_t collateral_count = 0;  // workers that failed too, or were stopped, because of the culprit
  std::vector<Rank> collateral;       // those of them whose end is known
  Duration lived{};                   // from the start of the workers to `at`
  bool refused_by_node = false;       // a node refused the attempt, and counts as lost for that
  bool stopped_from_outside = false;  // of a hang: who hangs has been stopped or frozen
  bool cannot_heal = false;           // the program says that a restart would fail alike
  bool at_start = false;              // it came before the first step of an attempt at full size
  enum class GaveUp { kNot, kNoProgress, kBudget } gave_up = GaveUp::kNot;
  std::string final_because;       // why it is not tried again although restarts are left, or ""
  bool lost_before_start = false;  // a node was, whose agent had joined, and no worker had been started
  bool never_came = false;         // the agent of the node that is to blame could not be started

  // A failure of workers or nodes; not what was asked for, nor what would be refused again.
  bool restart_may_help() const;
  // Whether the culprit ended with 0, and another rank missed it.
  bool is_early_leave() const;
  std::string cause_and_step() const;  // "rank 2 (node1) was killed by SIGKILL at step 57"
};

std::string_view name_of(Verdict::Kind kind);  // "out_of_memory"
std::string name_of(const StopWish& wish);     // "SIGINT"

// Behind "stopped" or "cancelled" in a line: "by SIGINT" of "stopped by SIGINT", other causes as they are.
std::string_view cause_of_end(std::string_view cause);

// Whether it was told to save and leave, and has done so.
bool left_on_notice(bool notice_given, const WorkerEnd& end);

// `names`: of the nodes, for the cause and the evidence.
Verdict judge(const AttemptFacts& facts, const NodeNames& names = {});

// The verdict of a job that the user stopped where the failed attempt would have been repeated: `failed`,
// with the user's exit code.
Verdict stopped_after(const Verdict& failed, const StopWish& wish);
// The same for a job whose time was up: `failed`, with exit code 124.
Verdict out_of_time_after(const Verdict& failed, bool committed_on_notice);
// The verdict of a job whose restart never ran, for the reason `end`: `end`, with the culprit of `failed`. A
// refusal is then the launcher's own failure, because the user's input was right once.
Verdict ended_after(const Verdict& failed, const Verdict& end);
// The exit code of a failure before anything runs: kExitUsage if another path would do, else kExitInternal.
int exit_code_of_path_error(ErrorCode code);

}  // namespace muster::launcher
