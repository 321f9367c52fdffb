// Reads and writes job.json and report.json in the directory of a job. `launch` writes job.json when the job
// starts. Commands about jobs read both files.
//
// job.json has the launcher's pid and start time. By these, processes on its machine can tell whether the
// launcher still runs. Blocking.
#pragma once

#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

#include "launcher/core/view/job_list.h"

namespace muster::launcher {

// Writes job.json, which appears complete or not at all. Does not sync it: that would delay the job's start.
// `started_unix` is the job's beginning, in seconds since 1970. report.json counts the job's duration from
// this moment.
Status write_job_record(const Plan& plan, double started_unix);

// Returns the job in `directory`. Returns kNotFound if there is none.
Expected<JobEntry> read_job(const std::string& directory);
// Returns the jobs in the directories below `log_directory`. Returns none if this directory does not exist.
Expected<std::vector<JobEntry>> list_jobs(const std::string& log_directory);

// Returns the processes on this machine that belong to jobs. The key is the name of the job. A process
// belongs to a job if it has MUSTER_JOB_ID in its environment. Processes whose environment this user cannot
// read are missing. If a launcher has died, its workers run until the controller grace has passed.
std::map<std::string, std::vector<pid_t>> processes_by_job();

double unix_now();

}  // namespace muster::launcher
