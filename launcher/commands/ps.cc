// `launch ps`: lists the jobs with logs in one directory.
#include "launcher/commands/invocation.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher {

int ps(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  const auto directory = log_directory_of(*arguments, invocation.here);
  if (!directory) return refuse(directory.error(), kExitUsage);
  const auto count = arguments->count("newest", "jobs");
  if (!count) return refuse(count.error(), kExitUsage);
  auto jobs = list_jobs(*directory);
  if (!jobs) return refuse(jobs.error(), kExitUsage);
  if (arguments->has("state")) {
    const auto state = parse_state(arguments->value("state"));
    if (!state) return refuse(state.error(), kExitUsage);
    std::erase_if(*jobs, [&state](const JobEntry& job) { return job.state != *state; });
  }
  if (*count) keep_newest(*jobs, **count);
  if (arguments->has("json")) return print(jobs_as_json(*jobs));
  if (jobs->empty())
    return print(fmt::format("no {}jobs in {}\n",
                             arguments->has("state") ? arguments->value("state") + " " : "", *directory));
  return print(jobs_as_table(*jobs, unix_now(), terminal_columns()));
}

}  // namespace muster::launcher
