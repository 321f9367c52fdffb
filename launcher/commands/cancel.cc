// `launch cancel`: stops a running job, or all, and waits for the end. Jobs that can save do so first.
#include <thread>
#include <vector>

#include "launcher/commands/conversation.h"
#include "launcher/commands/invocation.h"
#include "launcher/core/text/words.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher {

namespace {

constexpr Duration kCancelLimit = std::chrono::seconds(10);
constexpr Duration kLookAgain = std::chrono::milliseconds(20);

// Waits for the end of the job. The wait needs no time limit, because the job's grace bounds it. The user can
// leave before that with Ctrl-C.
Expected<JobEntry> wait_for_end(const JobEntry& running) {
  for (;;) {
    auto job = read_job(running.record.directory);
    if (!job || job->state != running.state) return job;
    std::this_thread::sleep_for(kLookAgain);
  }
}

// Sends the request to the job. Returns when the launcher has heard it.
Status tell(const JobEntry& job, bool now) {
  auto conversation =
      Conversation::ask(job, now ? R"({"command": "cancel", "now": true})" : R"({"command": "cancel"})");
  if (!conversation) return std::unexpected(conversation.error());
  const auto line = conversation->next(kCancelLimit);
  return line ? Status() : std::unexpected(line.error());
}

// Returns whether the job has ended since it was listed. If it has, its launcher cannot hear anything any
// more.
bool has_ended(const JobEntry& listed) {
  if (listed.state != JobEntry::State::kRunning) return false;
  const auto job = read_job(listed.record.directory);
  return job && !job->may_run() && job->state != JobEntry::State::kLost;
}

// Call with --all. If the user agrees, returns the jobs that run on this machine. Otherwise returns the exit
// code.
std::expected<std::vector<JobEntry>, int> all_running(const CommandArguments& arguments,
                                                      const Surroundings& here) {
  if (!arguments.operands.empty())
    return std::unexpected(
        refuse(Error(ErrorCode::kInvalidArgument,
                     fmt::format("--all: {} is one job: give --all or the job", arguments.operands.front())),
               kExitUsage));
  const auto directory = log_directory_of(arguments, here);
  if (!directory) return std::unexpected(refuse(directory.error(), kExitUsage));
  auto jobs = list_jobs(*directory);
  if (!jobs) return std::unexpected(refuse(jobs.error(), kExitUsage));
  std::erase_if(*jobs, [](const JobEntry& job) { return job.state != JobEntry::State::kRunning; });
  if (jobs->empty()) return *jobs;
  if (const auto refused = ask_before("cancel " + count_of(jobs->size(), "job"),
                                      jobs_as_table(*jobs, unix_now(), terminal_columns()), arguments))
    return std::unexpected(*refused);
  return *jobs;
}

}  // namespace

int cancel(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  std::vector<JobEntry> jobs;
  if (arguments->has("all")) {
    auto all = all_running(*arguments, invocation.here);
    if (!all) return all.error();
    jobs = *std::move(all);
  } else {
    auto job = find_job(*arguments, invocation.here, Preferred::kRunning);
    if (!job) return refuse(job.error(), kExitUsage);
    jobs.push_back(*std::move(job));
  }
  const std::size_t count = jobs.size();
  std::vector<Error> errors;
  // Each job may need its grace to save and leave. So this tells all jobs to end before it waits for the
  // first one.
  std::erase_if(jobs, [&](const JobEntry& job) {
    const Status told = tell(job, arguments->has("now"));
    if (told || has_ended(job)) return false;
    errors.push_back(told.error());
    return true;
  });
  std::vector<JobEntry> ended;
  for (const JobEntry& job : jobs) {
    auto end = wait_for_end(job);
    if (!end) {
      errors.push_back(end.error());
    } else {
      ended.push_back(*std::move(end));
    }
  }
  for (const Error& error : errors) say(error.message());
  const int exit_code = errors.empty() ? 0 : 1;
  if (ended.empty() && !errors.empty()) return exit_code;
  if (arguments->has("json")) return print(jobs_as_json(ended), exit_code);
  std::string text;
  for (const JobEntry& job : ended) text += fmt::format("{} {}\n", job.record.job_id, end_of(job));
  return print(count == 0 ? "no job is running\n" : text, exit_code);
}

}  // namespace muster::launcher
