// `launch clean`: removes the directories of jobs that have ended.
#include <algorithm>
#include <filesystem>

#include "common/base/file.h"
#include "launcher/commands/invocation.h"
#include "launcher/core/text/duration.h"
#include "launcher/core/text/words.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher {

namespace {

namespace fs = std::filesystem;

bool is_below(const std::string& path, const std::string& directory) {
  const fs::path rest =
      fs::path(path).lexically_normal().lexically_relative(fs::path(directory).lexically_normal());
  return !path.empty() && !rest.empty() && *rest.begin() != "..";
}

// Removes job.json last. If something before it cannot be removed, `launch clean` still finds the job.
Status remove_job(const std::string& directory) {
  std::error_code error;
  fs::directory_iterator next(directory, error);
  for (; !error && next != fs::directory_iterator(); next.increment(error)) {
    if (next->path().filename() != "job.json") fs::remove_all(next->path(), error);
    if (error) break;
  }
  if (!error) fs::remove_all(directory, error);
  return error ? system_failure("cannot remove " + directory, error.value()) : Status();
}

struct Choice {
  std::vector<JobEntry> removable;
  std::vector<Error> kept;  // ended jobs that stay because of what their directories contain
};

Expected<Choice> chosen(const CommandArguments& arguments, const Surroundings& here) {
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
  const auto living = processes_by_job();
  Choice choice;
  for (JobEntry& job : ended_jobs(*jobs, age, keep->value_or(0), unix_now())) {
    if (living.contains(job.record.job_id)) continue;
    const auto saves_here = [&job](const JobEntry& other) {
      return is_below(other.record.checkpoint_directory, job.record.directory);
    };
    if (const auto other = std::ranges::find_if(*jobs, saves_here); other != jobs->end()) {
      choice.kept.push_back(
          {ErrorCode::kInvalidArgument, fmt::format("kept {}: it contains the checkpoints of job {}",
                                                    job.record.directory, other->record.job_id)});
    } else {
      choice.removable.push_back(std::move(job));
    }
  }
  return choice;
}

std::string list_of(const std::vector<JobEntry>& jobs) {
  std::string text;
  for (const JobEntry& job : jobs) text += fmt::format("{} ({})\n", job.record.job_id, name_of(job.state));
  return text;
}

}  // namespace

int clean(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  auto choice = chosen(*arguments, invocation.here);
  if (!choice) return refuse(choice.error(), kExitUsage);
  std::vector<JobEntry>& jobs = choice->removable;  // after the loop: those that were removed
  const bool dry_run = arguments->has("dry-run");
  const bool asks = !dry_run && !jobs.empty() && !arguments->has("yes");
  if (asks) {
    if (const auto refused = ask_before("remove " + count_of(jobs.size(), "job"), list_of(jobs), *arguments))
      return *refused;
    // While the user read the question, another job may have begun that uses a directory of one of these
    // jobs. So the jobs are chosen again.
    auto now = chosen(*arguments, invocation.here);
    if (!now) return refuse(now.error(), kExitUsage);
    std::erase_if(now->removable, [&jobs](const JobEntry& job) {
      return std::ranges::none_of(
          jobs, [&job](const JobEntry& listed) { return listed.record.directory == job.record.directory; });
    });
    *choice = *std::move(now);
  }
  int exit_code = 0;
  for (const Error& kept : choice->kept) exit_code = refuse(kept, 1);
  if (!dry_run) {
    std::erase_if(jobs, [&exit_code](const JobEntry& job) {
      const Status done = remove_job(job.record.directory);
      if (!done) exit_code = refuse(done.error(), 1);
      return !done;
    });
  }
  if (arguments->has("json")) return print(jobs_as_json(jobs), exit_code);
  return print(fmt::format("{}{} {}removed\n", asks ? "" : list_of(jobs), count_of(jobs.size(), "job"),
                           dry_run ? "would be " : ""),
               exit_code);
}

}  // namespace muster::launcher
