// job.json and report.json in a job's directory: `launch` writes job.json at the start; commands about jobs
// read both.
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
// started_unix: the moment from which report.json counts the job's duration, in seconds since 1970.
Status write_job_record(const Plan& plan, double started_unix);

// The job in `directory`. kNotFound: there is none.
Expected<JobEntry> read_job(const std::string& directory);
// The jobs in the directories below `log_directory`; none if it does not exist.
Expected<std::vector<JobEntry>> list_jobs(const std::string& log_directory);

// The processes on this machine, by job: those with MUSTER_JOB_ID in their environment, as far as this user
// can read it. Workers of a dead launcher run until the controller grace has passed.
std::map<std::string, std::vector<pid_t>> processes_by_job();

double unix_now();

}  // namespace muster::launcher
