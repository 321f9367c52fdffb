// The limits of a job that flags set, messages carry and both sides keep: a field each, with its default, and
// a line of a table, by which it is read from its flag and travels.
//
// A new one needs its flag (launcher/core/settings/flags.cc), its two lines here, and who keeps it. Plain
// values; safe in any thread.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

#include "common/base/clock.h"

namespace muster::wire {

struct JobLimits {
  Duration grace = std::chrono::seconds(10);             // from TERM to KILL
  Duration controller_grace = std::chrono::seconds(30);  // workers live this long without a launcher
  Duration silence_limit =
      std::chrono::seconds(10);  // a peer that says nothing for so long is taken for dead
  // A worker that heartbeats, and then does not for so long, hangs. Zero: not watched.
  Duration heartbeat_limit = std::chrono::seconds(30);
  // A step or section may take so long before anything has been learned about it. Zero: not watched.
  Duration hang_limit = std::chrono::seconds(600);
  // A process may be in uninterruptible sleep (state D) for so long. Zero: not watched.
  Duration uninterruptible_limit{};
  // Ranks wait for a launcher or a log file that takes nothing of their output at most so long. Zero: nobody
  // waits.
  Duration output_stall = std::chrono::seconds(30);
  std::int64_t log_limit_bytes = 0;    // of a rank's log files of one attempt; zero: none
  std::int64_t memory_tier_bytes = 0;  // that an agent holds of its ranks' checkpoints

  bool operator==(const JobLimits&) const = default;
};

struct TimeLimit {
  std::string_view name;  // of its flag, and in messages, where it is a number of nanoseconds
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
  std::string_view name;  // of its flag, and in messages, where it is a number of bytes
  std::int64_t JobLimits::* field;
  std::int64_t least_bytes;  // that the flag takes
};
inline constexpr SizeLimit kSizeLimits[] = {
    // An eighth of the limit is one file; smaller files would be more names than text.
    {"log-limit", &JobLimits::log_limit_bytes, 64 << 10},
    {"memory-tier", &JobLimits::memory_tier_bytes, 1 << 20},
};

static_assert(sizeof(JobLimits) == 8 * (std::size(kTimeLimits) + std::size(kSizeLimits)),
              "a limit is in no table");

}  // namespace muster::wire
