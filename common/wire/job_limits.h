// The limits of a job. Flags set the limits, messages carry them, and the launcher or the agents enforce
// them. For each limit there is a field with its default, and an entry in a table. The entry has the name of
// the flag. The field has the same name in messages.
//
// A new limit needs four things: a flag (launcher/core/settings/flags.cc), a field here, an entry here, and
// the code that enforces it. Plain values.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

#include "common/base/clock.h"

namespace muster::wire {

struct JobLimits {
  Duration grace = std::chrono::seconds(10);             // from TERM to KILL
  Duration controller_grace = std::chrono::seconds(30);  // how long workers run without a launcher
  Duration silence_limit = std::chrono::seconds(10);     // a peer that is silent for longer counts as dead
  // A worker that has sent heartbeats counts as hanging if it then sends none for this long. Zero: nobody
  // watches the heartbeats.
  Duration heartbeat_limit = std::chrono::seconds(30);
  // A worker counts as hanging if a step or section takes longer than this (agent/core/health/hang_watch.h).
  // Zero: steps and sections are not watched.
  Duration hang_limit = std::chrono::seconds(600);
  // A worker that is in uninterruptible sleep (state D) for longer than this counts as hanging. Zero: this is
  // not watched.
  Duration uninterruptible_limit{};
  // Ranks wait for this time if the launcher or a log file takes none of their output. Zero: they do not
  // wait.
  Duration output_stall = std::chrono::seconds(30);
  std::int64_t log_limit_bytes = 0;    // of a rank's log files in one attempt; 0: unlimited
  std::int64_t memory_tier_bytes = 0;  // of an agent's memory for checkpoints; 0: none

  bool operator==(const JobLimits&) const = default;
};

struct TimeLimit {
  std::string_view name;  // of its flag, and of its field in messages, which is in nanoseconds
  Duration JobLimits::* field;
  bool may_be_zero;
};
inline constexpr TimeLimit kTimeLimits[] = {
    {"grace", &JobLimits::grace, true},
    {"controller-grace", &JobLimits::controller_grace, true},
    {"silence-limit", &JobLimits::silence_limit, false},
    {"heartbeat-limit", &JobLimits::heartbeat_limit, true},
    {"hang-limit", &JobLimits::hang_limit, true},
    {"uninterruptible-limit", &JobLimits::uninterruptible_limit, true},
    {"output-stall", &JobLimits::output_stall, true},
};

struct SizeLimit {
  std::string_view name;  // of its flag, and of its field in messages, which is in bytes
  std::int64_t JobLimits::* field;
  std::int64_t least_bytes;  // the least that the flag accepts
};
inline constexpr SizeLimit kSizeLimits[] = {
    // Each part of a log file has an eighth of the limit. If the limit were lower, there would be too many
    // small files.
    {"log-limit", &JobLimits::log_limit_bytes, 64 << 10},
    {"memory-tier", &JobLimits::memory_tier_bytes, 1 << 20},
};

static_assert(sizeof(JobLimits) == 8 * (std::size(kTimeLimits) + std::size(kSizeLimits)),
              "a limit is in no table");

}  // namespace muster::wire
