// The seam to the lineage of a training: which attempt came from which checkpoint, and who may write.
//
// The lineage lies on a disk, which may be slow: each question is answered once, before the call returns or
// at any later time, and the answer carries the question's number. What an answer means is decided in core.
// One thread.
#pragma once

#include <functional>

#include "launcher/core/job/job_events.h"

namespace muster::launcher {

class Lineage {
 public:
  virtual ~Lineage() = default;

  // Takes the next attempt's number: fences all older attempts and says what the new one resumes from.
  using OnBegun = std::function<void(AttemptBegun)>;
  using OnDenied = std::function<void(AttemptDenied)>;
  virtual void begin_attempt(const BeginAttempt& wish, OnBegun begun, OnDenied denied) = 0;
  // The newest checkpoint that the attempt has committed.
  using OnFound = std::function<void(CheckpointFound)>;
  virtual void newest_commit(const LookForCheckpoint& wish, OnFound found) = 0;
};

}  // namespace muster::launcher
