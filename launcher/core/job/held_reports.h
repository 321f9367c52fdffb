// Reports of progress (steps and heartbeats) that are held back: the job hears of the newest of each rank
// once a second, and of all that are held before it hears of anything but output, pongs and logs.
//
// So the job decides nothing without the newest step, and neither the job nor its journal is busy with steps
// that decide nothing. The agent's Reports keep the newest of each rank too
// (agent/core/health/worker_report.h), for a tenth of a second: what they save is frames, and people see
// progress sooner than the job hears of it. Plain values; the time is passed in.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "launcher/core/fleet/fleet_events.h"

namespace muster::launcher {

class HeldReports {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(1);

  // Holds the message, which is of the attempt at hand, if it tells of progress; else returns false.
  bool hold(const AgentSaid& said, TimePoint now);
  // All that is held, with the time at which it came (of a rank the newest report's), in the order in which
  // each rank's first held report came.
  std::vector<AgentSaid> take();
  std::optional<TimePoint> next_deadline() const { return due_; }

 private:
  std::vector<AgentSaid> held_;
  std::unordered_map<Rank, std::size_t> position_;  // in held_
  std::optional<TimePoint> due_;
};

}  // namespace muster::launcher
