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
  kDone,
};
constexpr std::size_t kPhaseCount = 9;

// What kinds of things happen to a job, and what each leads to in each phase. A test walks through every
// cell.
enum class Occurrence {
  kJoined,
  kLost,       // a node that the attempt cannot do without
  kSpareLost,  // another
  kStraysEnded,
  kBegun,
  kDenied,
  kPrepared,
  kRefused,
  kWorkerEnded,
  kWorkerFailed,
  kPeerMissed,  // a worker failed because it lost another one
  kNodeEmptied,
  kFenced,
  kInterrupted,
  kNoticed,        // all workers can save and leave, and are to
  kNoticeExpired,  // and have not done so in time
  kStalled,        // beyond the limit
  kStacksEnded,    // all have answered, or had time to
  kTimeLimit,
};
constexpr std::size_t kOccurrenceCount = 19;
enum class Reaction {
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
