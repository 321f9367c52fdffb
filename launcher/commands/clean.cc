// `launch clean`: removes the directories of jobs that have ended.
#include <filesystem>

#include "common/base/process.h"
#include "common/base/text.h"
#include "launcher/commands/invocation.h"
#include "launcher/core/duration.h"
#include "launcher/core/verdict.h"
#include "launcher/core/words.h"
#include "launcher/io/job_files.h"

namespace muster::launcher {

namespace {

namespace fs = std::filesystem;

// The workers of a job whose launcher is gone live until the controller grace has passed.
bool has_processes(const JobEntry& job) {
  const std::string mark = "MUSTER_JOB_ID=" + job.record.job_id;
  std::error_code error;
  fs::directory_iterator next("/proc", error);
  for (; !error && next != fs::directory_iterator(); next.increment(error)) {
    const auto pid = parse_number<pid_t>(next->path().filename().string());
    if (pid && was_executed_with(*pid, mark)) return true;
  }
  return false;
}

Expected<std::vector<JobEntry>> chosen(const CommandArguments& arguments, const Surroundings& here) {
  Duration age{};
  if (arguments.has("older-than")) {
    const auto given = parse_duration(arguments.value("older-than"));
    if (!given)
      return failure(ErrorCode::kInvalidArgument,
                     "--older-than: {} is not a duration: give one such as 7d or 12h",
                     arguments.value("older-than"));
    age = *given;
  }
  const auto keep = arguments.count("keep", "jobs");
  if (!keep) return std::unexpected(keep.error());
  const auto directory = log_directory_of(arguments, here);
  if (!directory) return std::unexpected(directory.error());
  const auto jobs = list_jobs(*directory);
  if (!jobs) return std::unexpected(jobs.error());
  return ended_jobs(*jobs, age, keep->value_or(0), unix_now());
}

}  // namespace

int clean(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  const auto ended = chosen(*arguments, invocation.here);
  if (!ended) return refuse(ended.error(), kExitUsage);
  int exit_code = 0;
  std::vector<JobEntry> removed;
  for (const JobEntry& job : *ended) {
    if (job.state == JobEntry::State::kLost && has_processes(job)) continue;
    std::error_code error;
    fs::remove_all(job.record.directory, error);
    if (error) {
      exit_code = refuse(system_failure("cannot remove " + job.record.directory, error.value()).error(), 1);
    } else {
      removed.push_back(job);
    }
  }
  if (arguments->has("json")) return print(jobs_as_json(removed), exit_code);
  std::string text;
  for (const JobEntry& job : removed) text += fmt::format("{} ({})\n", job.record.job_id, name_of(job.state));
  return print(text + fmt::format("{} removed\n", count_of(removed.size(), "job")), exit_code);
}

}  // namespace muster::launcher
