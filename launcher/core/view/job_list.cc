#include "launcher/core/view/job_list.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/ranges.h>
#include <functional>
#include <iterator>

#include "common/base/python_torch.h"
#include "common/base/text.h"
#include "common/wire/process_identity.h"
#include "launcher/core/settings/commands.h"
#include "launcher/core/settings/job_json.h"
#include "launcher/core/text/duration.h"
#include "launcher/core/text/nearest.h"
#include "launcher/core/text/table.h"
#include "launcher/core/text/words.h"

namespace muster::launcher {

namespace {

using nlohmann::ordered_json;
using enum JobEntry::State;

constexpr std::size_t kNamedAtMost = 5;
static_assert(std::ranges::count(kJobStates, '|') == static_cast<int>(kElsewhere), "one name for each state");

std::string utc_text(double unix_seconds) {
  const auto time = std::chrono::sys_seconds(std::chrono::seconds(static_cast<std::int64_t>(unix_seconds)));
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

constexpr std::string_view kJobIdLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

ordered_json record_json(const JobRecord& record) {
  ordered_json json{
      {"job_id", record.job_id}, {"started_at", record.started_at}, {"started_unix", record.started_unix}};
  add_identity(json, record.launcher);
  json["command"] = record.command;
  json["world_size"] = record.world_size;
  json["nodes"] = nodes_json(record.nodes, record.names);
  json["log_directory"] = record.directory;
  json["checkpoint_directory"] = record.checkpoint_directory;
  return json;
}

std::string dumped(const ordered_json& json) {
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::vector<const JobEntry*> newest_first(const std::vector<JobEntry>& jobs) {
  std::vector<const JobEntry*> sorted;
  for (const JobEntry& job : jobs) sorted.push_back(&job);
  std::ranges::sort(sorted, std::greater(), [](const JobEntry* job) {
    return std::pair(job->record.started_unix, std::string_view(job->record.job_id));
  });
  return sorted;
}

std::string command_text(std::vector<std::string> command, bool is_short) {
  if (is_short && !command.empty()) {
    const bool interpreted = command.size() > 1 && is_python(command.front());
    if (interpreted) command.erase(command.begin());
    while (interpreted && command.size() > 1 && (command.front() == "-u" || command.front() == "-m"))
      command.erase(command.begin());
    command.front().erase(0, command.front().find_last_of('/') + 1);
  }
  std::string text = fmt::format("{}", fmt::join(command, " "));
  std::ranges::replace_if(text, [](char letter) { return letter >= 0 && letter < ' '; }, ' ');
  return text;
}

Row row_of(const JobEntry& job, double now_unix, bool is_short) {
  const double age = std::max(0.0, now_unix - job.record.started_unix);
  return {job.record.job_id,
          std::string(name_of(job.state)),
          job.exit_code ? std::to_string(*job.exit_code) : "-",
          duration_text(age),
          job.duration_seconds    ? duration_text(*job.duration_seconds)
          : job.state == kRunning ? duration_text(age)
                                  : "-",
          std::to_string(job.record.nodes.size()),
          std::to_string(job.record.world_size),
          command_text(job.record.command, is_short)};
}

std::string names_of(const std::vector<const JobEntry*>& jobs) {
  std::string names;
  for (std::size_t i = 0; i < std::min(jobs.size(), kNamedAtMost); ++i)
    names += fmt::format("{}{}", i == 0 ? "" : ", ", jobs[i]->record.job_id);
  return jobs.size() > kNamedAtMost ? names + ", ..." : names;
}

// Returns the job that `wanted` names. If several names match, running jobs come first, unless the newest job
// is wanted.
Expected<JobEntry> the_named(const std::vector<const JobEntry*>& jobs, const std::string& wanted,
                             Preferred preferred, const std::string& place) {
  std::vector<const JobEntry*> found;
  std::vector<std::string_view> names;
  for (const JobEntry* job : jobs) {
    if (job->record.job_id == wanted) return *job;
    if (job->record.job_id.starts_with(wanted)) found.push_back(job);
    names.push_back(job->record.job_id);
  }
  const auto runs = [](const JobEntry* job) { return job->state == kRunning; };
  if (preferred != Preferred::kNewest && std::ranges::any_of(found, runs))
    std::erase_if(found, std::not_fn(runs));
  if (found.size() == 1) return *found.front();
  if (found.size() > 1)
    return failure(ErrorCode::kInvalidArgument, "{}: ambiguous: could be {}: give more of the name", wanted,
                   names_of(found));
  const auto near = nearest(wanted, names);
  return failure(ErrorCode::kInvalidArgument, "{}: no such job in {}: {}", wanted, place,
                 near ? fmt::format("did you mean {}?", *near) : std::string("`launch ps` lists the jobs"));
}

}  // namespace

JobRecord make_job_record(const Plan& plan, ProcessIdentity launcher, double started_unix) {
  return {.job_id = plan.job.job_id,
          .launcher = std::move(launcher),
          .command = plan.job.command,
          .nodes = plan.nodes,
          .names = plan.names(),
          .world_size = plan.world_size(),
          .directory = plan.job.log_directory,
          .checkpoint_directory = plan.job.checkpoint_directory,
          .started_at = utc_text(started_unix),
          .started_unix = started_unix};
}

std::string job_record_as_json(const JobRecord& record) {
  return dumped(record_json(record));
}

Expected<JobRecord> parse_job_record(std::string_view text) {
  try {
    const nlohmann::json json = parse_shallow_json(text, Fractions::kTaken);
    const std::string job_id = json.at("job_id");
    // A job's name can only have letters that shells need no quotes for, because shells complete these names.
    if (job_id.empty() || job_id.find_first_not_of(kJobIdLetters) != std::string::npos)
      return failure(ErrorCode::kCorrupt, "'{}' is not a name of a job", job_id);
    JobRecord record{.job_id = job_id,
                     .launcher = parse_identity(json),
                     .command = json.at("command").get<std::vector<std::string>>(),
                     .nodes = {},
                     .names = {},
                     .world_size = whole_number<std::int32_t>(json.at("world_size")),
                     .directory = json.at("log_directory"),
                     .checkpoint_directory = json.at("checkpoint_directory"),
                     .started_at = json.at("started_at"),
                     .started_unix = json.at("started_unix")};
    record.nodes = nodes_of(json.at("nodes"));
    record.names = names_of(json.at("nodes"));
    return record;
  } catch (const nlohmann::json::exception& error) {
    return failure(ErrorCode::kCorrupt, "not a record of a job: {}", error.what());
  }
}

std::string_view name_of(JobEntry::State state) {
  return split(kJobStates, '|')[static_cast<std::size_t>(state)];
}

Expected<JobEntry::State> parse_state(std::string_view name) {
  const auto names = split(kJobStates, '|');
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<JobEntry::State>(found - names.begin());
  return failure(ErrorCode::kInvalidArgument, "--state: {} is not one of {}", name, fmt::join(names, ", "));
}

JobEntry::State state_at_end(std::string_view kind, std::string_view origin, int exit_code) {
  if (kind == name_of(Verdict::Kind::kCancelled)) return kCancelled;
  const bool told_to = origin == "user" || kind == name_of(Verdict::Kind::kInterrupted) ||
                       kind == name_of(Verdict::Kind::kPreempted) ||
                       kind == name_of(Verdict::Kind::kTimeLimit);
  if (told_to) return kStopped;
  return exit_code == 0 ? kSucceeded : kFailed;
}

bool was_stopped(const Verdict& verdict) {
  const JobEntry::State state = state_at_end(name_of(verdict.kind), verdict.origin, verdict.exit_code);
  return state == kStopped || state == kCancelled;
}

std::string jobs_as_table(const std::vector<JobEntry>& jobs, double now_unix, std::size_t columns) {
  constexpr std::size_t kLeastOfCommand = 20;
  const std::vector<Column> titles = {{"JOB"},
                                      {"STATE"},
                                      {"EXIT", true},
                                      {"AGE", true},
                                      {"TIME", true},
                                      {"NODES", true, Narrow::kLeftOut},
                                      {"RANKS", true, Narrow::kLeftOut},
                                      {"COMMAND", false, Narrow::kCut, kLeastOfCommand}};
  const auto table = [&](bool is_short, std::size_t width) {
    std::vector<Row> rows;
    for (const JobEntry* job : newest_first(jobs)) rows.push_back(row_of(*job, now_unix, is_short));
    return table_text(titles, std::move(rows), width);
  };
  const std::string whole = table(false, 0);
  return columns == 0 || fits(whole, columns) ? whole : table(true, columns);
}

std::string jobs_as_json(const std::vector<JobEntry>& jobs) {
  ordered_json array = ordered_json::array();
  for (const JobEntry* job : newest_first(jobs)) {
    ordered_json json = record_json(job->record);
    json["state"] = name_of(job->state);
    json["exit_code"] = job->exit_code ? ordered_json(*job->exit_code) : ordered_json(nullptr);
    json["cause"] = job->cause;
    json["duration_seconds"] =
        job->duration_seconds ? ordered_json(*job->duration_seconds) : ordered_json(nullptr);
    array.push_back(std::move(json));
  }
  return dumped(array);
}

void keep_newest(std::vector<JobEntry>& jobs, std::size_t count) {
  std::vector<JobEntry> kept;
  for (const JobEntry* job : newest_first(jobs)) {
    if (kept.size() < count) kept.push_back(*job);
  }
  jobs = std::move(kept);
}

std::vector<JobEntry> ended_jobs(const std::vector<JobEntry>& jobs, Duration age, std::size_t keep,
                                 double now_unix) {
  std::vector<JobEntry> ended;
  for (const JobEntry* job : newest_first(jobs)) {
    if (job->may_run()) continue;
    if (keep > 0) {
      --keep;
      continue;
    }
    // Nobody knows when a lost job ended. The time of its start is taken instead.
    const double end = job->record.started_unix + job->duration_seconds.value_or(0);
    // If the clock was set back, the job seems to end in the future. Then the job counts as one that ends
    // now.
    if (std::max(0.0, now_unix - end) >= in_seconds(age)) ended.push_back(*job);
  }
  return ended;
}

Expected<JobEntry> choose_job(const std::vector<JobEntry>& jobs, const std::string& wanted,
                              Preferred preferred, const std::string& place) {
  const auto sorted = newest_first(jobs);
  if (!wanted.empty()) return the_named(sorted, wanted, preferred, place);
  std::vector<const JobEntry*> running;
  if (preferred != Preferred::kNewest)
    std::ranges::copy_if(sorted, std::back_inserter(running),
                         [](const JobEntry* job) { return job->state == kRunning; });
  if (running.size() == 1) return *running.front();
  if (running.size() > 1)
    return failure(ErrorCode::kInvalidArgument, "{} jobs are running: name one of {}", running.size(),
                   names_of(running));
  if (preferred != Preferred::kRunning && !sorted.empty()) return *sorted.front();
  if (!sorted.empty() && sorted.front()->state == kLost)  // its workers may still be running
    return failure(ErrorCode::kInvalidArgument, "no job is running in {}; {} is lost: see `launch status {}`",
                   place, sorted.front()->record.job_id, sorted.front()->record.job_id);
  return failure(ErrorCode::kInvalidArgument, "no job {} in {}: `launch ps` lists the jobs",
                 preferred == Preferred::kRunning ? "is running" : "found", place);
}

}  // namespace muster::launcher
