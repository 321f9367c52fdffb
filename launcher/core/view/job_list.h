// The jobs in one log directory: the record of each, the table of `launch ps`, and the choice of the job that
// a user means.
//
// Pure: io/job_files.h reads and writes the files.
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
  std::string directory;  // the job's log directory
  std::string checkpoint_directory;
  std::string started_at;  // UTC, for people
  double started_unix = 0;
};
JobRecord make_job_record(const Plan& plan, ProcessIdentity launcher, double started_unix);
std::string job_record_as_json(const JobRecord& record);
Expected<JobRecord> parse_job_record(std::string_view json);

struct JobEntry {
  enum class State {  // kJobStates has their names
    kRunning,
    kSucceeded,
    kFailed,
    kStopped,    // by a user's signal, by its sweep, on notice or at its time limit
    kCancelled,  // by `launch cancel`
    kLost,       // its launcher is gone and left no report
    kElsewhere,  // its launcher runs, or ran, on another machine, and left no report yet
  } state = State::kLost;
  JobRecord record;
  std::optional<int> exit_code{};
  std::string cause{};
  std::optional<double> duration_seconds{};
  // Returns whether the job may be running. This machine cannot always tell.
  bool may_run() const { return state == State::kRunning || state == State::kElsewhere; }
};
std::string_view name_of(JobEntry::State state);
// Reads the name of a state, in the form that --state takes.
Expected<JobEntry::State> parse_state(std::string_view name);
// Returns the state of a job that has ended. The arguments are fields of its report.json.
JobEntry::State state_at_end(std::string_view kind, std::string_view origin, int exit_code);
// Whether the job was stopped on purpose.
bool was_stopped(const Verdict& verdict);

// Both functions list the newest job first. `columns` is the width of the terminal. If it is 0, nothing is
// cut. If the table is too wide, each command is shown without its interpreter, and without the directory of
// the script.
std::string jobs_as_table(const std::vector<JobEntry>& jobs, double now_unix, std::size_t columns = 0);
std::string jobs_as_json(const std::vector<JobEntry>& jobs);

// Keeps only the `count` newest.
void keep_newest(std::vector<JobEntry>& jobs, std::size_t count);
// Returns jobs that have ended, the newest first. The `keep` newest are left out. So are jobs that ended less
// than `age` ago.
std::vector<JobEntry> ended_jobs(const std::vector<JobEntry>& jobs, Duration age, std::size_t keep,
                                 double now_unix);

// The job to choose if the user names none.
enum class Preferred { kRunning, kRunningElseNewest, kNewest };
// Returns the job that the user means. `wanted` is a name, the beginning of a name, or "". `place` is the
// directory of the jobs, for messages. An error is one line that says what would be right.
Expected<JobEntry> choose_job(const std::vector<JobEntry>& jobs, const std::string& wanted,
                              Preferred preferred, const std::string& place);

}  // namespace muster::launcher
