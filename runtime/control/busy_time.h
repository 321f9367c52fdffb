// How long this rank's own work of a step takes: the time from the end of the last step to the end of this
// one, without the time in which it waits for other ranks.
//
// Process-wide, as sections are. Who waits says so (DistributedDataParallel does); of a step in which nobody
// waited nothing is known. Safe from any thread; the class reads no clock.
#pragma once

#include <mutex>
#include <optional>

#include "common/base/clock.h"

namespace muster {

class BusyTime {
 public:
  // The first of all begins the first step, whose work so far is not known.
  void wait_begins(TimePoint now);
  void wait_ends(TimePoint now);
  // Nothing if nobody waited, or somebody still does: an error ended it.
  std::optional<Duration> step_ended(TimePoint now);

 private:
  std::mutex mutex_;
  std::optional<TimePoint> step_began_;
  std::optional<TimePoint> wait_began_;
  bool waited_ = false;
  Duration waiting_{};
};

BusyTime& busy_time();

}  // namespace muster
