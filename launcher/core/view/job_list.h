// The jobs whose logs lie in one directory: what is kept of each, the table of `launch ps`, and which one a
// user means.
//
// Pure: the files are read and written by io/job_files.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/process.h"
#include "launcher/core/settings/plan.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

// job.json.
struct JobRecord {
  std::string job_id;
  ProcessIdentity launcher;
  std::vector<std::string> command;
  std::vector<NodePlan> nodes;
  NodeNames names;
  std::int32_t world_size = 0;
  std::string directory;  // of the job's logs
  std::string checkpoint_directory;
  std::string started_at;  // UTC, for people
  double started_unix = 0;
};
JobRecord make_job_record(const Plan& plan, ProcessIdentity launcher, double now_unix);
std::string job_record_as_json(const JobRecord& record);
Expected<JobRecord> parse_job_record(std::string_view json);

struct JobEntry {
  enum class State {
    kRunning,
    kSucceeded,
    kFailed,
    kStopped,    // by a signal of the user's, on notice or at its time limit
    kCancelled,  // by `launch cancel`
    kLost,       // its launcher is gone and left no report
    kElsewhere,  // its launcher is, or was, on another machine, and has left no report yet
  } state = State::kLost;
  JobRecord record;
  std::optional<int> exit_code{};
  std::string cause{};
  std::optional<double> duration_seconds{};
  // As far as can be known from here.
  bool may_run() const { return state == State::kRunning || state == State::kElsewhere; }
};
std::string_view name_of(JobEntry::State state);
// How a job has ended, of which report.json says this.
JobEntry::State state_at_end(std::string_view kind, std::string_view origin, int exit_code);
// On purpose, and not by what became of it.
bool was_stopped(const Verdict& verdict);

// The newest first, in both.
std::string jobs_as_table(const std::vector<JobEntry>& jobs, double now_unix);
std::string jobs_as_json(const std::vector<JobEntry>& jobs);

// Leaves the `count` newest.
void keep_newest(std::vector<JobEntry>& jobs, std::size_t count);
// The jobs that have ended so long ago, but for the `keep` newest of these; the newest first.
std::vector<JobEntry> ended_jobs(const std::vector<JobEntry>& jobs, Duration age, std::size_t keep,
                                 double now_unix);

// Which job is meant when none is named.
enum class Preferred { kRunning, kRunningElseNewest, kNewest };
// `wanted`: a name, the beginning of one, or "". `place` is where the jobs are, for messages. Errors say in
// one line what would be right.
Expected<JobEntry> choose_job(const std::vector<JobEntry>& jobs, const std::string& wanted,
                              Preferred preferred, const std::string& place);

}  // namespace muster::launcher
