// The job's state machine as a table: what each kind of occurrence leads to in each phase.
//
// Job (job.h) notes what happened and then does what the table says. Constants; no state.
#pragma once

#include <array>
#include <cstddef>

namespace muster::launcher {

enum class Phase { kGathering, kBeginning, kPreparing, kRunning, kStopping, kLeaving, kDone };
constexpr std::size_t kPhaseCount = 7;

// What kinds of things happen to a job, and what each leads to in each phase. A test walks through every
// cell.
enum class Occurrence {
  kJoined,
  kLost,
  kStraysEnded,
  kBegun,
  kDenied,
  kPrepared,
  kRefused,
  kWorkerEnded,
  kWorkerFailed,
  kNodeEmptied,
  kFenced,
  kInterrupted
};
constexpr std::size_t kOccurrenceCount = 12;
enum class Reaction {
  kIgnore,
  kNote,   // keep it, and go on when it was the last thing waited for
  kStop,   // keep it, and stop what runs
  kHurry,  // keep it, and kill what does not stop by itself
};
extern const std::array<std::array<Reaction, kPhaseCount>, kOccurrenceCount> kReactions;

}  // namespace muster::launcher
