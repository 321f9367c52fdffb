// `launch status`: prints the state of a running job.
#include "launcher/core/view/status.h"

#include "common/wire/json.h"
#include "launcher/commands/conversation.h"
#include "launcher/commands/invocation.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

namespace {

constexpr Duration kStatusLimit = std::chrono::seconds(10);

int print_end(const JobEntry& job, bool json) {
  if (json) return print(jobs_as_json({job}));
  return print(fmt::format("{} {}\n", job.record.job_id, end_of(job)));
}

}  // namespace

int status(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  const auto job = find_job(*arguments, invocation.here, Preferred::kRunning);
  if (!job) return refuse(job.error(), kExitUsage);
  const bool json = arguments->has("json");
  if (job->exit_code || job->state == JobEntry::State::kLost) return print_end(*job, json);
  auto conversation = Conversation::ask(*job, R"({"command": "status"})");
  if (!conversation) return refuse(conversation.error(), 1);
  const auto line = conversation->next(kStatusLimit);
  if (!line) return refuse(line.error(), 1);
  if (!*line)
    return refuse(
        Error(ErrorCode::kUnavailable, "the launcher closed the connection: the job has just ended"), 1);
  const auto status = parse_status(**line);
  if (!status) return refuse(status.error(), 1);
  if (json) return print(parse_shallow_json(**line, Fractions::kTaken).dump(2) + "\n");
  return print(status_as_text(*status, terminal_columns()));
}

}  // namespace muster::launcher
