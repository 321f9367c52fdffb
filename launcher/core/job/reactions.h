// The job's state machine as a table: what each kind of occurrence leads to in each phase.
//
// Job (job.h) notes what happened and then does what the table says. Constants; no state.
#pragma once

#include <array>
#include <cstddef>

namespace muster::launcher {

enum class Phase {
  kGathering,  // agents come, or a back-off passes
  kBeginning,  // the attempt gets its number from the lineage
  kPreparing,  // the attempt's agents prepare it
  kRunning,
  kDumping,     // a worker hangs: the stacks of all are collected
  kPreempting,  // the workers have been told to save and leave
  kStopping,
  kLeaving,
  kDone,  // stays last: phases are compared
};
constexpr std::size_t kPhaseCount = static_cast<std::size_t>(Phase::kDone) + 1;

// What kinds of things happen to a job, and what each leads to in each phase. A test compares every cell with
// the table in docs/architecture.md.
enum class Occurrence {
  kJoined,
  kLost,       // a node that the attempt cannot do without
  kSpareLost,  // a node that takes no part in the attempt
  kLeftoversGone,
  kTooFew,  // nodes have not come in time for the first attempt
  kBegun,
  kDenied,
  kPrepared,
  kRefused,
  kUnfit,  // a node refuses a restart, and is given up for that
  kWorkerEnded,
  kWorkerFailed,
  kPeerMissed,  // a worker failed because it lost another one
  kNodeEmptied,
  kFenced,
  kInterrupted,
  kNoticed,        // the workers are to save and leave, and all of them can
  kNoticeExpired,  // the workers have not saved and left in time
  kMayHang,        // a worker does not get on, which is worth telling
  kStalled,        // a worker does not get on, and its limit has passed
  kStacksEnded,    // the stacks of all have come, or had time to
  kTimeLimit,
  kCount,  // no occurrence: the number of them
};
constexpr std::size_t kOccurrenceCount = static_cast<std::size_t>(Occurrence::kCount);
enum class Reaction {
  kUndecided,  // no reaction: a cell of the table was forgotten
  kIgnore,
  kNote,     // note the occurrence, and go on if it was the last thing waited for
  kAwait,    // note it, and stop the workers once its cause is known, or has not shown for a while
  kDump,     // note it, and ask for the stacks of all
  kPreempt,  // note it, and tell the workers to save and leave
  kStop,     // note it, and stop the workers
  kKill,     // note it, and kill what does not stop by itself
};
extern const std::array<std::array<Reaction, kPhaseCount>, kOccurrenceCount> kReactions;

}  // namespace muster::launcher
