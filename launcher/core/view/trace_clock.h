// How the clock of one node went against the launcher's, from the answers that events.jsonl has kept: puts
// times of the node's ranks on the launcher's clock.
//
// An answer is as good as its round trip was short, and the worse the longer ago it is, since clocks drift.
// Those that are worse than what others say of their moment do not count; between two that do, the offset
// changes evenly. The answers may be any numbers. Pure; times are nanoseconds of monotonic clocks.
#pragma once

#include <cstdint>
#include <vector>

#include "launcher/core/fleet/clock_offset.h"

namespace muster::launcher {

class TraceClock {
 public:
  explicit TraceClock(const std::vector<ClockOffset::Answer>& answers = {});
  // The moment `there` of the node's clock, by the launcher's. Without an answer both are one clock.
  std::int64_t here(std::int64_t there) const;
  bool is_known() const { return !answers_.empty(); }

 private:
  struct Known {
    std::int64_t there = 0;
    std::int64_t offset = 0;
    double error = 0;
  };
  std::vector<Known> answers_;  // by their times
};

}  // namespace muster::launcher
