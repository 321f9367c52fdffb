#include "launcher/io/view/job_files.h"

#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/text.h"
#include "common/wire/json.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

constexpr std::uint64_t kRecordLimitBytes = 16 << 20;  // 100,000 nodes fit
constexpr std::uint64_t kReportLimitBytes = 256 << 20;

void add_report(JobEntry& job, const std::string& text) {
  try {
    const nlohmann::json report = parse_shallow_json(text, Fractions::kTaken);
    job.exit_code = whole_number<int>(report.at("exit_code"));
    job.cause = report.at("cause");
    job.duration_seconds = report.at("duration_seconds").get<double>();
    const std::string kind = report.at("class");
    const std::string origin = report.at("origin");
    job.state = state_at_end(kind, origin, *job.exit_code);
  } catch (const nlohmann::json::exception&) {
    job.cause = "cannot read report.json";
  }
}

}  // namespace

Status write_job_record(const Plan& plan, double started_unix) {
  const std::string path = plan.job.log_directory + "/job.json";
  const std::string temporary = path + ".tmp";
  UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd) return system_failure("cannot create " + temporary, errno);
  const JobRecord record = make_job_record(plan, own_identity(), started_unix);
  if (Status written = write_all(fd.get(), job_record_as_json(record), temporary); !written) return written;
  if (rename(temporary.c_str(), path.c_str()) != 0) return system_failure("cannot create " + path, errno);
  return {};
}

Expected<JobEntry> read_job(const std::string& directory) {
  const auto text = read_regular_file(directory + "/job.json", kRecordLimitBytes);
  if (!text) return std::unexpected(text.error());
  auto record = parse_job_record(*text);
  if (!record) return failure_within(directory + "/job.json", std::move(record));
  JobEntry job{.state = JobEntry::State::kLost, .record = std::move(*record)};
  job.record.directory = directory;  // it may have been moved
  // First looks whether the launcher lives, and then for the report. If the launcher ends between the two,
  // the report is there.
  const auto alive = is_alive(job.record.launcher);
  if (const auto report = read_regular_file(directory + "/report.json", kReportLimitBytes)) {
    add_report(job, *report);
  } else if (!alive) {
    job.state = JobEntry::State::kElsewhere;
  } else if (*alive) {
    job.state = JobEntry::State::kRunning;
  }
  return job;
}

Expected<std::vector<JobEntry>> list_jobs(const std::string& log_directory) {
  std::vector<JobEntry> jobs;
  std::error_code error;
  std::filesystem::directory_iterator next(log_directory, error);
  if (error == std::errc::no_such_file_or_directory) return jobs;
  for (; !error && next != std::filesystem::directory_iterator(); next.increment(error)) {
    if (auto job = read_job(next->path().string())) jobs.push_back(std::move(*job));
  }
  if (error) return system_failure("cannot read " + log_directory, error.value());
  return jobs;
}

std::map<std::string, std::vector<pid_t>> processes_by_job() {
  constexpr std::string_view kMark = "MUSTER_JOB_ID=";
  std::map<std::string, std::vector<pid_t>> processes;
  std::error_code error;
  std::filesystem::directory_iterator next("/proc", error);
  for (; !error && next != std::filesystem::directory_iterator(); next.increment(error)) {
    const auto pid = parse_number<pid_t>(next->path().filename().string());
    if (!pid) continue;
    const std::string environment = environment_of(*pid);
    for (const std::string_view entry : split(environment, '\0')) {
      if (entry.starts_with(kMark)) processes[std::string(entry.substr(kMark.size()))].push_back(*pid);
    }
  }
  return processes;
}

double unix_now() {
  return in_seconds(from_ns(unix_ns()));
}

}  // namespace muster::launcher
