#include "agent/core/start/start_failure.h"

namespace muster::agent {

namespace {

constexpr int kUserCanMend = 2;
constexpr int kAnythingElse = 125;
constexpr int kCannotExecute = 126;
constexpr int kNoSuchProgram = 127;

// Returns whether the path has caused the error. Then another path would help. It would not help against a
// lack of descriptors, memory or space.
bool is_about_the_path(ErrorCode code) {
  return code == ErrorCode::kNotFound || code == ErrorCode::kPermission ||
         code == ErrorCode::kInvalidArgument;
}

}  // namespace

std::string script_of(const wire::JobSpec& job) {
  const std::vector<std::string>& words = job.command;
  if (words.empty() || !words.front().substr(words.front().rfind('/') + 1).starts_with("python")) return "";
  const std::size_t at = words.size() > 1 && words[1] == "-u" ? 2 : 1;
  if (words.size() <= at || words[at].starts_with('-') || !words[at].ends_with(".py")) return "";
  return words[at];
}

int exit_code_of(StartStep step, ErrorCode code, const wire::JobSpec& job) {
  switch (step) {
    case StartStep::kWorkingDirectory:
    case StartStep::kLogDirectory: return is_about_the_path(code) ? kUserCanMend : kAnythingElse;
    case StartStep::kProgram:
    case StartStep::kScript:
      if (code == ErrorCode::kNotFound) return kNoSuchProgram;
      return code == ErrorCode::kPermission ? kCannotExecute : kAnythingElse;
    case StartStep::kStore: return job.master_port != 0 ? kUserCanMend : kAnythingElse;
    case StartStep::kResources: break;
  }
  return kAnythingElse;
}

wire::AttemptRefused refusal(const StartFailure& failure, const wire::JobSpec& job) {
  wire::AttemptRefused refused{exit_code_of(failure.step, failure.error.code(), job),
                               failure.error.message()};
  if (failure.error.code() == ErrorCode::kNotFound) {
    if (failure.step == StartStep::kWorkingDirectory) refused.missing = job.working_directory;
    if (failure.step == StartStep::kScript) {
      const std::string script = script_of(job);
      refused.missing = script.contains('/') ? script : "./" + script;  // Python does not search PATH
    }
    if (failure.step == StartStep::kProgram && !job.command.empty()) refused.missing = job.command.front();
  }
  return refused;
}

}  // namespace muster::agent
