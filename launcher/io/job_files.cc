#include "launcher/io/job_files.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/text.h"
#include "common/wire/json.h"

namespace muster::launcher {

namespace {

constexpr std::uint64_t kRecordLimitBytes = 16 << 20;  // 100,000 nodes fit
constexpr std::uint64_t kReportLimitBytes = 256 << 20;

// Field 22 of /proc/PID/stat; the name before it may hold spaces and brackets.
std::int64_t start_ticks_of(std::int64_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/stat", pid), 4096);
  if (!text) return 0;
  const auto fields = split(std::string_view(*text).substr(text->rfind(')') + 1), ' ');
  constexpr std::size_t kField = 20;  // counted from the bracket
  return fields.size() > kField ? parse_number<std::int64_t>(fields[kField]).value_or(0) : 0;
}

LauncherIdentity own_identity() {
  LauncherIdentity self{.pid = getpid(), .start_ticks = start_ticks_of(getpid())};
  char buffer[256] = "";
  if (gethostname(buffer, sizeof buffer) == 0) self.host = buffer;
  const char* user = std::getenv("USER");
  self.user = user != nullptr ? user : std::to_string(getuid());
  self.boot_id = read_file("/proc/sys/kernel/random/boot_id", 100).value_or("");
  while (self.boot_id.ends_with('\n')) self.boot_id.pop_back();
  std::error_code error;
  self.pid_namespace = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
  return self;
}

// Nothing where this process cannot know.
std::optional<bool> is_alive(const LauncherIdentity& launcher) {
  static const LauncherIdentity self = own_identity();
  if (launcher.host != self.host) return std::nullopt;
  if (launcher.boot_id != self.boot_id) return false;
  if (launcher.pid_namespace != self.pid_namespace) return std::nullopt;
  return launcher.start_ticks != 0 && start_ticks_of(launcher.pid) == launcher.start_ticks;
}

void add_report(JobEntry& job, const std::string& text) {
  try {
    const nlohmann::json report = parse_shallow_json(text, Fractions::kTaken);
    job.exit_code = whole_number<int>(report.at("exit_code"));
    job.cause = report.at("cause");
    job.duration_seconds = report.at("duration_seconds").get<double>();
    const std::string kind = report.at("class");
    const bool told_to = report.at("origin") == "user" || kind == "preempted" || kind == "time_limit";
    job.state = told_to              ? JobEntry::State::kStopped
                : job.exit_code == 0 ? JobEntry::State::kSucceeded
                                     : JobEntry::State::kFailed;
  } catch (const nlohmann::json::exception&) {
    job.cause = "report.json cannot be read";
  }
}

}  // namespace

Status write_job_record(const Plan& plan) {
  const std::string path = plan.job.log_directory + "/job.json";
  const std::string temporary = path + ".tmp";
  UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd) return system_failure("cannot create " + temporary, errno);
  const JobRecord record = make_job_record(plan, own_identity(), unix_now());
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
  // First whether it lives, then the report: a launcher writes it before it ends.
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

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace muster::launcher
