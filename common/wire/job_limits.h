// The limits of a job that flags set, messages carry, and launcher or agent enforce. Each is a field with its
// default and a line of a table, which gives the name of its flag and of its field in messages.
//
// A new limit needs its flag (launcher/core/settings/flags.cc), its two lines here, and the code that
// enforces it. Plain values; safe in any thread.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

#include "common/base/clock.h"

namespace muster::wire {

struct JobLimits {
  Duration grace = std::chrono::seconds(10);             // from TERM to KILL
  Duration controller_grace = std::chrono::seconds(30);  // workers live this long without a launcher
  Duration silence_limit = std::chrono::seconds(10);     // a peer that is silent this long counts as dead
  // A worker that has sent heartbeats counts as hanging if it sends none for this long. Zero: not watched.
  Duration heartbeat_limit = std::chrono::seconds(30);
  // The longest step or section, until the agent has learned how long they take. Zero: not watched.
  Duration hang_limit = std::chrono::seconds(600);
  // How long a process may be in uninterruptible sleep (state D). Zero: not watched.
  Duration uninterruptible_limit{};
  // How long ranks wait for a launcher or a log file that accepts none of their output. Zero: they do not
  // wait.
  Duration output_stall = std::chrono::seconds(30);
  std::int64_t log_limit_bytes = 0;    // of a rank's log files in one attempt; zero: unlimited
  std::int64_t memory_tier_bytes = 0;  // memory of an agent for its ranks' checkpoints

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
    // A file holds an eighth of the limit; smaller files would be more names than text.
    {"log-limit", &JobLimits::log_limit_bytes, 64 << 10},
    {"memory-tier", &JobLimits::memory_tier_bytes, 1 << 20},
};

static_assert(sizeof(JobLimits) == 8 * (std::size(kTimeLimits) + std::size(kSizeLimits)),
              "a limit is in no table");

}  // namespace muster::wire
