// Converts times of one node's ranks to the launcher's clock, using the answers to pings in events.jsonl.
//
// An answer with a short round trip is precise, but gets less precise with time, since clocks drift. Ignores
// an answer if other answers tell the offset at the same moment more precisely. Interpolates between the
// remaining answers. Tolerates any numbers. Pure; times are nanoseconds of monotonic clocks.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/core/fleet/clock_offset.h"

namespace muster::launcher {

class TraceClock {
 public:
  explicit TraceClock(const std::vector<ClockOffset::Answer>& answers = {});
  // Converts the node's time `there` to the launcher's clock. Without answers, returns it unchanged.
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
