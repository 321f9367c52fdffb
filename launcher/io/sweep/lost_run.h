// Reads the remains of a trial's run whose controller was killed: reports that the controller may not have
// heard, and whether the program had ended.
//
// Reads the job's log directory on this machine. Blocking.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster::launcher::sweep {

struct LostRun {
  struct Report {
    std::int64_t step = 0;
    std::map<std::string, double> values;
  };
  std::vector<Report> reports;  // by step
  bool finished = false;        // all ranks of the last attempt had ended with 0
};
// Waits up to `kLostRunLimit` for the processes of the job: their agents end them. A file that is missing or
// torn has no reports.
LostRun read_lost_run(const std::string& job_directory, std::int32_t world_size);

}  // namespace muster::launcher::sweep
