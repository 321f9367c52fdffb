// job.json and report.json in a job's directory: written at the start, and read by the commands that look at
// jobs.
//
// A job whose launcher lives is told from one whose launcher is gone by the process's pid and start time,
// which only its own machine can know. Blocking.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/core/view/job_list.h"

namespace muster::launcher {

// Whole or not at all, but not synced: it must not cost the start of a job.
Status write_job_record(const Plan& plan);

// What is known of the job in `directory`. kNotFound: there is none.
Expected<JobEntry> read_job(const std::string& directory);
// The jobs of all directories below `log_directory` that hold one; none if it does not exist.
Expected<std::vector<JobEntry>> list_jobs(const std::string& log_directory);

// How many processes of which job live on this machine: workers, until the controller grace has passed, and
// what could not be killed. By MUSTER_JOB_ID in their environments, as far as this user may read them.
std::map<std::string, std::size_t> processes_by_job();

double unix_now();

}  // namespace muster::launcher
