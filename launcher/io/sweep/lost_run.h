// Reads what is left of a run of a trial when its controller was killed. There may be reports that the
// controller has not heard. It also finds out whether the program had ended.
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
// Reads what a lost run has left. Printed lines without a step get the steps that follow `newest_step`, as in
// TrialRun. First waits for the processes of the job, which are ended by their agents. If some are left after
// `limit`, returns kUnavailable and names them. If a file is missing or torn, it counts as a file without
// reports.
Expected<LostRun> read_lost_run(const std::string& job_directory, std::int32_t world_size,
                                std::int64_t newest_step, Duration limit = kLostRunLimit);

}  // namespace muster::launcher::sweep
