// Converts the times of one node's ranks to the launcher's clock. For this it needs the answers to pings that
// are in events.jsonl.
//
// An answer with a short round trip is precise. It gets less precise with time, because clocks drift. An
// answer is ignored if other answers tell the offset at the same moment more precisely. Between the remaining
// answers, the offset is interpolated. Any numbers can come without harm. Pure; times are nanoseconds of
// monotonic clocks.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/core/fleet/clock_offset.h"

namespace muster::launcher {

class TraceClock {
 public:
  explicit TraceClock(const std::vector<ClockOffset::Answer>& answers = {});
  // Converts `there`, a time of the node's clock, to the launcher's clock. If the node's clock is not known,
  // returns `there` unchanged.
  std::int64_t here(std::int64_t there) const;
  bool is_known() const { return !answers_.empty(); }

 private:
  struct Known {
    std::int64_t there = 0;
    std::int64_t offset = 0;
    double error = 0;
  };
  std::vector<Known> answers_;  // sorted by time
};

}  // namespace muster::launcher
