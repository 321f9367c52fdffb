// events.jsonl: what happened to a job, one JSON object a line, written as it happens, and read by those who
// look back. Pure: the caller appends and reads.
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
// "text": "..."}; fields that say nothing are left out. `time`: seconds since 1970. `at`, of a job that is
// traced, becomes "monotonic_ns". Ends with a newline.
std::string event_line(const Record& what, double time, std::optional<TimePoint> at = std::nullopt);

// {"time": ..., "event": "clock", "node": 1, "host": "h2", "monotonic_ns": ..., "ahead_ns": ...,
// "round_trip_ns": ...}: how far ahead the clock of this node's agent was.
std::string clock_line(NodeId node, const std::string& host, const ClockOffset::Answer& answer, double time);

// Where the ranks of each attempt were started, as its "workers_started" lines say; after nodes were lost,
// elsewhere than planned.
class StartedRanks {
 public:
  struct Node {
    NodePlan plan;
    std::string host;  // empty: it has none
  };
  // Reads such an event; json::exception if it is not as event_line() writes it.
  void add(const nlohmann::json& event);
  // nullptr: nothing is known of it.
  const Node* find(std::uint64_t attempt, Rank rank) const;

 private:
  std::map<std::uint64_t, std::map<Rank, Node>> nodes_;  // by attempt and first rank
};

}  // namespace muster::launcher
