// The job's state machine as a table: what each kind of occurrence leads to in each phase.
//
// Job (job.h) notes what happened and then does what the table says. Constants; no state.
#pragma once

#include <array>
#include <cstddef>

namespace muster::launcher {

enum class Phase {
  kGathering,  // agents come; a back-off passes
  kBeginning,  // the attempt takes its number
  kPreparing,  // its agents prepare
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
  kSpareLost,  // another
  kLeftoversGone,
  kBegun,
  kDenied,
  kPrepared,
  kRefused,
  kUnfit,  // a node refuses a restart, and is lost for that
  kWorkerEnded,
  kWorkerFailed,
  kPeerMissed,  // a worker failed because it lost another one
  kNodeEmptied,
  kFenced,
  kInterrupted,
  kNoticed,        // all workers can save and leave, and are to
  kNoticeExpired,  // and have not done so in time
  kMayHang,        // a worker does not get on
  kStalled,        // beyond the limit
  kStacksEnded,    // all have answered, or had time to
  kTimeLimit,
  kCount,  // none: their number
};
constexpr std::size_t kOccurrenceCount = static_cast<std::size_t>(Occurrence::kCount);
enum class Reaction {
  kUndecided,  // none: a cell that was forgotten
  kIgnore,
  kNote,     // keep it, and go on when it was the last thing waited for
  kAwait,    // keep it, and stop what runs when its cause is known, or does not show
  kDump,     // keep it, and ask for the stacks of all
  kPreempt,  // keep it, and tell the workers to save and leave
  kStop,     // keep it, and stop what runs
  kHurry,    // keep it, and kill what does not stop by itself
};
extern const std::array<std::array<Reaction, kPhaseCount>, kOccurrenceCount> kReactions;

}  // namespace muster::launcher
