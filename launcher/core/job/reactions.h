// The job's state machine as a table. For each kind of occurrence and each phase, the table has the reaction.
//
// Job (job.h) notes what happened and then does what the table says. Constants; no state.
#pragma once

#include <array>
#include <cstddef>

namespace muster::launcher {

enum class Phase {
  kGathering,  // waits for agents, or for the end of a back-off
  kBeginning,  // the attempt gets its number from the lineage
  kPreparing,  // the attempt's agents prepare it
  kRunning,
  kDumping,     // a worker hangs: collects the stacks of all workers
  kPreempting,  // the workers have been told to save and leave
  kStopping,
  kLeaving,
  kDone,  // must stay last: code compares phases
};
constexpr std::size_t kPhaseCount = static_cast<std::size_t>(Phase::kDone) + 1;

// The kinds of occurrences. A test compares every cell of kReactions with the table in docs/architecture.md.
enum class Occurrence {
  kJoined,
  kLost,       // a node that the attempt cannot do without
  kSpareLost,  // a node that takes no part in the attempt
  kLeftoversGone,
  kTooFew,  // too few nodes joined in time for the first attempt
  kBegun,
  kDenied,
  kPrepared,
  kRefused,
  kUnfit,  // a node refuses a restart, and the job gives the node up
  kWorkerEnded,
  kWorkerFailed,
  kPeerMissed,  // a worker failed because it lost another one
  kNodeEmptied,
  kFenced,
  kInterrupted,
  kNoticed,        // the workers shall save and leave, and all can
  kNoticeExpired,  // the workers did not save and leave in time
  kMayHang,        // a worker makes no progress; tells the user
  kStalled,        // a worker makes no progress, and its limit has passed
  kStacksEnded,    // all stacks have arrived, or their time is over
  kTimeLimit,
  kCount,  // the number of occurrences
};
constexpr std::size_t kOccurrenceCount = static_cast<std::size_t>(Occurrence::kCount);
enum class Reaction {
  kUndecided,  // a forgotten cell of the table
  kIgnore,
  kNote,     // note the occurrence, and enter the next phase if nothing else is awaited
  kAwait,    // note it, and stop the workers once its cause is known, or after a while
  kDump,     // note it, and request the stacks of all workers
  kPreempt,  // note it, and tell the workers to save and leave
  kStop,     // note it, and stop the workers
  kKill,     // note it, and kill the processes that do not stop by themselves
};
extern const std::array<std::array<Reaction, kPhaseCount>, kOccurrenceCount> kReactions;

}  // namespace muster::launcher
