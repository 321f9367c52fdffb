#include "launcher/commands/checkpoint_use.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/checkpoint/directory.h"
#include "launcher/commands/invocation.h"
#include "launcher/core/text/words.h"
#include "launcher/core/verdict/verdict.h"
#include "launcher/io/lost_job.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher {

namespace {

using enum CheckpointUse::Kind;

// Agents that are told to leave give their workers the grace. Then they may write checkpoints from memory to
// the disk, for up to 45 s.
constexpr Duration kLeaveLimit = std::chrono::seconds(50);

// Returns an agent that may belong to the job of the attempt. Returns nothing if this user could see whether
// it does.
std::optional<pid_t> foreign_agent(const std::string& attempt_path) {
  struct stat facts{};
  if (geteuid() == 0 || stat(attempt_path.c_str(), &facts) != 0 || facts.st_uid == geteuid())
    return std::nullopt;
  return lost_agent_of(facts.st_uid);
}

CheckpointUse use_of_ended(const Options& options, const AttemptRecord& last) {
  const std::string& directory = options.checkpoint_directory;
  const std::string used = fmt::format("{} was last used by {}", directory, owner_of(last));
  const auto record = read_job(options.log_directory + "/" + last.job);
  const bool has_report = record && record->state != JobEntry::State::kLost;
  if (has_report || was_executed_with(getpid(), "MUSTER_JOB_ID=" + last.job))
    return {kOver, used + ", which has ended"};
  const std::string_view elsewhere =
      record && !options.hosts.empty() ? "; what it has left on other hosts cannot be seen from here" : "";
  const LostJob job(last.job);
  if (job.was_given(directory)) {
    const std::size_t count = job.process_count();
    return {kLeft,
            fmt::format(
                "{}, whose launcher is gone; launch first ends {} process{} of that job on this machine{}",
                used, count, count == 1 ? "" : "es", elsewhere),
            last.job};
  }
  const auto agent = foreign_agent(CheckpointDirectory(directory).attempt_path(last.attempt));
  if (agent && !options.take_over)
    return {kRefused, fmt::format("{}, whose launcher is gone; that user's agent (process {}) still runs",
                                  used, *agent)};
  return {kOver, fmt::format("{}, which has ended{}", used, elsewhere)};
}

}  // namespace

std::optional<CheckpointUse> last_use_of(const Options& options) {
  const std::string& directory = options.checkpoint_directory;
  if (directory.empty()) return std::nullopt;
  const auto last = CheckpointDirectory(directory).newest();
  if (!last) return std::nullopt;
  const auto alive = is_alive(last->owner);
  const std::string who = owner_of(*last);
  if (!alive)
    return CheckpointUse{kUnknown, fmt::format("{} is taken over from job {} on host {}: "
                                               "if that job still runs, it will stop",
                                               directory, last->job, last->owner.host)};
  if (!*alive) return use_of_ended(options, *last);
  if (options.take_over)
    return CheckpointUse{
        kTaken, fmt::format("{} is taken over from {}, which is running and will stop", directory, who)};
  return CheckpointUse{kRefused, fmt::format("{} is in use by {}, which is running", directory, who)};
}

int settle_checkpoint_use(const Options& options, int signals, std::vector<std::string>& notices) {
  const auto use = last_use_of(options);
  if (!use) return 0;
  if (use->kind == kRefused)
    return refuse(Error(ErrorCode::kFenced, fmt::format("--checkpoint-dir: {}: {}", use->text, kUseAdvice)),
                  kExitUsage);
  if (use->kind != kLeft) {
    notices.push_back(use->text);
    return 0;
  }
  if (!options.quiet) say(use->text);
  const auto ended = LostJob(use->job).end(options.limits.grace + kLeaveLimit, signals);
  if (ended) return *ended == 0 ? 0 : 128 + *ended;
  const std::string cannot = fmt::format("--checkpoint-dir: {} may still be written by job {}: {}",
                                         options.checkpoint_directory, use->job, ended.error().message());
  if (!options.take_over)
    return refuse({ErrorCode::kFenced, cannot + ": end it, name another directory, or give --take-over"},
                  kExitUsage);
  notices.push_back(cannot);
  return 0;
}

}  // namespace muster::launcher
