// events.jsonl: the events of a job, one JSON object per line, written as they happen. Pure: the caller
// appends and reads.
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

// {"time": 1763742345.123, "event": "worker_exited", "attempt": 1, "rank": 2, "node": 1, "host": "h2",
// "text": "..."}; empty fields are left out. `time`: seconds since 1970. `at`, for a traced job, becomes
// "monotonic_ns". Ends with a newline.
std::string event_line(const Record& what, double time, std::optional<TimePoint> at = std::nullopt);

// {"time": ..., "event": "clock", "node": 1, "host": "h2", "monotonic_ns": ..., "ahead_ns": ...,
// "round_trip_ns": ...}: how far ahead the clock of this node's agent was.
std::string clock_line(NodeId node, const std::string& host, const ClockOffset::Answer& answer, double time);

// Where the ranks of each attempt were started, according to its "workers_started" lines. After nodes were
// lost, this differs from the plan.
class StartedRanks {
 public:
  struct Node {
    NodePlan plan;
    std::string host;  // empty: no host
  };
  // Reads a "workers_started" event. Throws json::exception if event_line() cannot have written it.
  void add(const nlohmann::json& event);
  // nullptr: unknown.
  const Node* find(std::uint64_t attempt, Rank rank) const;

 private:
  std::map<std::uint64_t, std::map<Rank, Node>> nodes_;  // by attempt and first rank
};

}  // namespace muster::launcher
