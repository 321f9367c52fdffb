// Makes the lines of events.jsonl. This file has the events of a job, each as a JSON object on a line of its
// own. They are written when they happen. Pure: the caller appends and reads.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "launcher/core/fleet/clock_offset.h"
#include "launcher/core/job/job_events.h"
#include "launcher/core/settings/plan.h"

namespace muster::launcher {

// Returns a line such as {"time": 1763742345.123, "event": "worker_exited", "attempt": 1, "rank": 2, "node":
// 1, "host": "h2", "text": "..."}. The line ends with a newline. Empty fields are left out. `time` is in
// seconds since 1970. If the job is traced, `at` is given, and becomes the field "monotonic_ns".
std::string event_line(const Record& what, double time, std::optional<TimePoint> at = std::nullopt);

// Returns a line such as {"time": ..., "event": "clock", "node": 1, "host": "h2", "monotonic_ns": ...,
// "ahead_ns": ..., "round_trip_ns": ...}. It says how far ahead the clock of this node's agent was.
std::string clock_line(NodeId node, const std::string& host, const ClockOffset::Answer& answer, double time);

// The node on which each rank of each attempt was started, from the "workers_started" lines of events.jsonl.
// After a node was lost, these nodes are not always those of the plan.
class StartedRanks {
 public:
  struct Node {
    NodePlan plan;
    std::string host;  // empty: no host
  };
  // Reads a "workers_started" event. If event_line() cannot have written it, throws json::exception.
  void add(const nlohmann::json& event);
  // nullptr: unknown.
  const Node* find(std::uint64_t attempt, Rank rank) const;

 private:
  std::map<std::uint64_t, std::map<Rank, Node>> nodes_;  // by attempt and first rank
};

}  // namespace muster::launcher
