// Holds back reports of progress (steps and heartbeats). The job gets
// - the newest report of each rank once a second;
// - all held reports before any other message, except output, pongs and logs.
//
// So the job always decides with the newest steps. Most reports of steps lead to no decision, and the job and
// its journal need not handle each of them. The rank table, which users see, gets each report at once.
// Agents, too, hold back reports, but only for a tenth of a second, to save frames
// (agent/core/health/worker_report.h). Plain values; the time is passed in.
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

  // If the message reports progress, holds it and returns true. Otherwise returns false. The message must be
  // one of the current attempt.
  bool hold(const AgentSaid& said, TimePoint now);
  // Removes all reports that are held, and returns them. There is one report for each rank that has reported.
  // The rank that reported first comes first. The time of a report is that of its rank's newest message.
  std::vector<AgentSaid> take();
  std::optional<TimePoint> next_deadline() const { return due_; }

 private:
  std::vector<AgentSaid> held_;
  std::unordered_map<Rank, std::size_t> position_;  // in held_
  std::optional<TimePoint> due_;
};

}  // namespace muster::launcher
