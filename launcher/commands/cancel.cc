// `launch cancel`: stops a running job, which saves first if it can, and waits for its end.
#include <thread>

#include "launcher/commands/conversation.h"
#include "launcher/commands/invocation.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher {

namespace {

constexpr Duration kCancelLimit = std::chrono::seconds(10);
constexpr Duration kLookAgain = std::chrono::milliseconds(20);

// No timeout: the job's grace bounds the wait, and the user may leave with Ctrl-C.
Expected<JobEntry> wait_for_end(const JobEntry& running) {
  for (;;) {
    auto job = read_job(running.record.directory);
    if (!job || job->state != running.state) return job;
    std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace

int cancel(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  const auto job = find_job(*arguments, invocation.here, Preferred::kRunning);
  if (!job) return refuse(job.error(), kExitUsage);
  auto conversation = Conversation::ask(
      *job, arguments->has("now") ? R"({"command": "cancel", "now": true})" : R"({"command": "cancel"})");
  if (!conversation) return refuse(conversation.error(), 1);
  if (const auto line = conversation->next(kCancelLimit); !line) return refuse(line.error(), 1);
  const auto ended = wait_for_end(*job);
  if (!ended) return refuse(ended.error(), 1);
  if (arguments->has("json")) return print(jobs_as_json({*ended}));
  return print(fmt::format("{} {}\n", ended->record.job_id, end_of(*ended)));
}

}  // namespace muster::launcher
