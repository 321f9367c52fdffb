// `launch top`: a live table of the ranks, with their progress and usage.
#include "launcher/core/view/top.h"

#include <sys/ioctl.h>
#include <thread>
#include <unistd.h>

#include "common/base/color.h"
#include "launcher/commands/conversation.h"
#include "launcher/commands/invocation.h"
#include "launcher/commands/live_table.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

namespace {

constexpr Duration kTableLimit = std::chrono::seconds(10);
// These are for --once. kPause is the pause between two requests. kUsageLimit is the limit for all of them
// together. Agents report usage once a second, and it takes two reports to compute the share of processor
// time.
constexpr auto kPause = std::chrono::milliseconds(200);
constexpr Duration kUsageLimit = std::chrono::seconds(4);

Expected<JobStatus> ask(const JobEntry& job) {
  auto conversation = Conversation::ask(job, R"({"command": "top"})");
  if (!conversation) return std::unexpected(conversation.error());
  const auto line = conversation->next(kTableLimit);
  if (!line) return std::unexpected(line.error());
  if (!*line)
    return failure(ErrorCode::kUnavailable, "the launcher closed the connection: the job has just ended");
  return parse_status(**line);
}

Screen screen() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) size = {};
  // The last row is for the cursor.
  const std::size_t rows = size.ws_row > 1 ? size.ws_row - 1U : 0U;
  return {.columns = terminal_columns(), .rows = rows, .bold = colors_wanted()};
}

// Call when the job does not answer. If the job has ended, this prints how. Otherwise it prints the error.
int say_why_it_is_silent(const JobEntry& job, const CommandArguments& arguments, const Invocation& invocation,
                         const Error& error) {
  const auto now = find_job(arguments, invocation.here, Preferred::kRunning);
  if (!now || now->record.job_id != job.record.job_id || !now->exit_code) return refuse(error, 1);
  return print(fmt::format("{} {}\n", job.record.job_id, end_of(*now)));
}

int watch(const JobEntry& job, const CommandArguments& arguments, const Invocation& invocation) {
  std::optional<JobStatus> before;
  std::optional<Error> silent;
  show_live([&]() -> std::optional<std::string> {
    auto status = ask(job);
    if (!status) {
      silent = status.error();
      return std::nullopt;
    }
    std::string table = top_as_text(*status, before, screen());
    before = *std::move(status);
    return table;
  });
  return silent ? say_why_it_is_silent(job, arguments, invocation, *silent) : 0;
}

// Prints the table when the usage of all ranks is fresh. If this takes longer than kUsageLimit, prints the
// table without waiting any more.
int show_once(const JobEntry& job, bool json) {
  const TimePoint limit = Clock::now() + kUsageLimit;
  std::optional<JobStatus> before;
  for (;;) {
    const auto status = ask(job);
    if (!status) return refuse(status.error(), 1);
    const bool renewed =
        before && knows_usage(*status) &&
        std::ranges::equal(status->ranks, before->ranks, [](const RankStatus& now, const RankStatus& then) {
          return !now.usage || (then.usage && then.usage->age_ns < now.usage->age_ns);
        });
    if (renewed || Clock::now() >= limit)
      return print(json ? top_as_json(*status, before)
                        : top_as_text(*status, before, {.columns = terminal_columns()}));
    if (!before && knows_usage(*status)) before = *status;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

int top(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  const auto job = find_job(*arguments, invocation.here, Preferred::kRunning);
  if (!job) return refuse(job.error(), kExitUsage);
  if (job->exit_code || job->state == JobEntry::State::kLost) {
    if (arguments->has("json")) return print(jobs_as_json({*job}));
    return print(fmt::format("{} {}\n", job->record.job_id, end_of(*job)));
  }
  if (arguments->has("once") || arguments->has("json") || isatty(STDOUT_FILENO) != 1)
    return show_once(*job, arguments->has("json"));
  return watch(*job, *arguments, invocation);
}

}  // namespace muster::launcher
