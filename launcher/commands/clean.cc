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

// Removes job.json last: after a failure, `launch clean` still finds the job.
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
  std::vector<JobEntry> all;
  std::vector<JobEntry> ended;
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
  auto jobs = list_jobs(*directory);
  if (!jobs) return std::unexpected(jobs.error());
  auto ended = ended_jobs(*jobs, age, keep->value_or(0), unix_now());
  return Choice{*std::move(jobs), std::move(ended)};
}

}  // namespace

int clean(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  const auto choice = chosen(*arguments, invocation.here);
  if (!choice) return refuse(choice.error(), kExitUsage);
  const auto living = processes_by_job();
  const bool dry_run = arguments->has("dry-run");
  int exit_code = 0;
  std::vector<JobEntry> removed;  // with --dry-run: would be removed
  for (const JobEntry& job : choice->ended) {
    if (living.contains(job.record.job_id)) continue;
    const auto saves_here = [&job](const JobEntry& other) {
      return is_below(other.record.checkpoint_directory, job.record.directory);
    };
    if (const auto other = std::ranges::find_if(choice->all, saves_here); other != choice->all.end()) {
      exit_code =
          refuse(failure(ErrorCode::kInvalidArgument, "kept {}: it contains the checkpoints of job {}",
                         job.record.directory, other->record.job_id)
                     .error(),
                 1);
      continue;
    }
    const Status done = dry_run ? Status() : remove_job(job.record.directory);
    if (!done) {
      exit_code = refuse(done.error(), 1);
    } else {
      removed.push_back(job);
    }
  }
  if (arguments->has("json")) return print(jobs_as_json(removed), exit_code);
  std::string text;
  for (const JobEntry& job : removed) text += fmt::format("{} ({})\n", job.record.job_id, name_of(job.state));
  text += fmt::format("{} {}removed\n", count_of(removed.size(), "job"), dry_run ? "would be " : "");
  return print(text, exit_code);
}

}  // namespace muster::launcher
