// How often the job hears of progress: of steps and heartbeats the newest of each rank, once a second; all
// that is held, in its order, before the job hears of anything else.
//
// So nothing is decided without the newest step, and neither the job nor its journal is busy with steps that
// decide nothing. Plain values; the time is passed in.
#pragma once

#include <cstddef>
#include <optional>
#include <unordered_map>
#include <vector>

#include "launcher/core/fleet/fleet_events.h"

namespace muster::launcher {

class ReportFold {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(1);

  // Whether the message tells of progress, and is held.
  bool hold(const AgentSaid& said, TimePoint now);
  // All that is held: in the order in which the first of each rank came.
  std::vector<AgentSaid> take();
  std::optional<TimePoint> next_deadline() const { return due_; }

 private:
  std::vector<AgentSaid> held_;
  std::unordered_map<Rank, std::size_t> position_;  // in held_
  std::optional<TimePoint> due_;
};

}  // namespace muster::launcher
