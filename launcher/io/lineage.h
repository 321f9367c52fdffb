// The interface to the lineage of a training. The lineage says which attempt came from which checkpoint, and
// which attempt is allowed to write.
//
// The lineage is on a disk, which may be slow. Each request gets one answer, before the call returns or at
// any later time. The answer has the request's number. The core decides what an answer means. One thread.
#pragma once

#include <functional>

#include "launcher/core/job/job_events.h"

namespace muster::launcher {

class Lineage {
 public:
  virtual ~Lineage() = default;

  // Takes the next attempt's number, and fences all older attempts, so that they can write no more. Finds the
  // checkpoint from which the attempt resumes.
  using OnBegun = std::function<void(AttemptBegun)>;
  using OnDenied = std::function<void(AttemptDenied)>;
  virtual void begin_attempt(const BeginAttempt& wish, OnBegun begun, OnDenied denied) = 0;
  // Finds the newest checkpoint that the attempt has committed, and calls `found` with it.
  using OnFound = std::function<void(CheckpointFound)>;
  virtual void newest_commit(const LookForCheckpoint& wish, OnFound found) = 0;
};

}  // namespace muster::launcher
