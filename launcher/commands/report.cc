// `launch report`: prints how a job ended, from its launcher's report.
#include "common/base/file.h"
#include "common/wire/json.h"
#include "launcher/commands/conversation.h"
#include "launcher/commands/invocation.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

namespace {

constexpr std::uint64_t kReportBytes = 256 << 20;

Error no_report(const JobEntry& job) {
  const std::string& name = job.record.job_id;
  if (job.state == JobEntry::State::kRunning)
    return {ErrorCode::kNotFound, fmt::format("{} is still running: see `launch status {}`", name, name)};
  const std::string why =
      job.state == JobEntry::State::kElsewhere
          ? fmt::format(
                "left no report: its launcher runs, or ran, on another machine or in another container ({})",
                job.record.launcher.host)
          : end_of(job);
  return {ErrorCode::kNotFound,
          fmt::format("{} {}: `launch logs {}` shows its workers' output", name, why, name)};
}

}  // namespace

int report(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  const auto job = find_job(*arguments, invocation.here, Preferred::kNewest);
  if (!job) return refuse(job.error(), kExitUsage);
  const std::string path = job->record.directory + "/report.json";
  const auto text = read_regular_file(path, kReportBytes);
  if (!text) return refuse(no_report(*job), 1);
  if (arguments->has("json")) return print(*text);
  try {
    tell_which(*job, *arguments);
    return print(parse_shallow_json(*text, Fractions::kTaken).at("details").get<std::string>());
  } catch (const nlohmann::json::exception& error) {
    return refuse(Error(ErrorCode::kCorrupt, fmt::format("{}: {}", path, error.what())), 1);
  }
}

}  // namespace muster::launcher
