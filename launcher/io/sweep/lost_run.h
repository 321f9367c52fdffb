// Reads the remains of a trial's run whose controller was killed: reports that the controller may not have
// heard, and whether the program had ended.
//
// Reads the job's log directory on this machine. Blocking.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/base/clock.h"
#include "common/base/error.h"

namespace muster::launcher::sweep {

struct LostRun {
  std::multimap<std::int64_t, std::map<std::string, double>> reports;  // by step, then by rank
  bool finished = false;  // all ranks of the last attempt had ended with 0
  double ended_unix = 0;  // when its ranks last wrote, in s since 1970; 0: they have written nothing
};
inline constexpr Duration kLostRunLimit = std::chrono::seconds(30);
// Printed lines without a step count on from `newest_step`, as in TrialRun. Waits for the processes of the
// job: their agents end them. kUnavailable names those that are left after `limit`. A file that is missing or
// torn has no reports.
Expected<LostRun> read_lost_run(const std::string& job_directory, std::int32_t world_size,
                                std::int64_t newest_step, Duration limit = kLostRunLimit);

}  // namespace muster::launcher::sweep
