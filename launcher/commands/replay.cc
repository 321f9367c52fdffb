// `launch replay`: runs the events of a job's journal through the core again, and compares the decisions.
#include <sys/stat.h>

#include "common/base/file.h"
#include "launcher/commands/invocation.h"
#include "launcher/core/journal/journal.h"
#include "launcher/core/verdict/verdict.h"

namespace muster::launcher {

namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
constexpr const char* kName = "/journal";

// If the operand is the directory of a job, returns it. Otherwise returns the directory of the job that the
// operand names. In this case it also prints the job's name.
Expected<std::string> directory_of(const CommandArguments& arguments, const Surroundings& here) {
  struct stat status{};
  if (!arguments.operands.empty() && stat((arguments.operands.front() + kName).c_str(), &status) == 0)
    return arguments.operands.front();
  const auto job = find_job(arguments, here, Preferred::kNewest);
  if (!job) return std::unexpected(job.error());
  if (!arguments.has("json")) tell_which(*job, arguments);
  return job->record.directory;
}

}  // namespace

int replay(const Invocation& invocation) {
  const auto arguments = read_arguments(invocation);
  if (!arguments) return arguments.error();
  const auto directory = directory_of(*arguments, invocation.here);
  if (!directory) return refuse(directory.error(), kExitUsage);
  const std::string path = *directory + kName;
  const auto bytes = read_regular_file(path, kMostBytes);
  if (!bytes) return refuse(bytes.error(), kExitUsage);
  const auto replayed = replay(*bytes);
  if (!replayed) return refuse(Error(replayed.error()).within(path), kExitUsage);
  const int exit_code = replayed->first_difference ? 1 : 0;
  return print(arguments->has("json") ? replay_as_json(*replayed) : replay_as_text(*replayed), exit_code);
}

}  // namespace muster::launcher
