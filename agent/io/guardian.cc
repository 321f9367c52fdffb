#include "agent/io/guardian.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <map>
#include <optional>
#include <sys/prctl.h>
#include <unistd.h>
#include <utility>

#include "agent/io/mpi/segments.h"
#include "agent/io/sweep.h"
#include "agent/io/workers/run_directory.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/process_limits.h"
#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr Duration kGiveUp = std::chrono::seconds(10);

std::string value_in(const std::map<std::string, std::string>& told, const char* name) {
  return told.at(name).substr(told.at(name).find('=') + 1);
}

// Kills the processes of a job. `told` has the entries that the agent has sent. `job` is the name of the
// entry with the job's id.
void kill_job(const std::map<std::string, std::string>& told, const char* job) {
  if (!told.contains(job)) return;
  const auto id_of = [&told](const char* name) { return value_in(told, name); };
  SweepOrder order{.job = id_of(job),
                   .node = NodeId(parse_number<std::int32_t>(id_of("MUSTER_NODE_ID")).value_or(0)),
                   .below = std::nullopt,
                   .kill = true,
                   .agents = told.contains("keep_from")};
  if (order.agents) order.below = Incarnation(parse_number<std::uint32_t>(id_of("keep_from")).value_or(1));
  kill_all(order, kGiveUp);
}

void remove_segments_of(const std::map<std::string, std::string>& told) {
  remove_segments(
      {.job = value_in(told, "MUSTER_JOB_ID"),
       .node = NodeId(parse_number<std::int32_t>(value_in(told, "MUSTER_NODE_ID")).value_or(0)),
       .incarnation = Incarnation(parse_number<std::uint32_t>(value_in(told, "segments_of")).value_or(1))});
}

[[noreturn]] void guard(int pipe) {
  // The guardian gets its own group, but stays in the agent's session. If the guardian outlives the agent,
  // the launcher finds out from the session that the guardian belongs to one of its agents.
  setpgid(0, 0);
  prctl(PR_SET_NAME, "muster-guardian");
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_IGN);
  dup2(pipe, STDIN_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  close_range(3, ~0U, 0);
  if (chdir("/") < 0) _exit(1);  // do not keep a directory in use

  std::map<std::string, std::string> told;
  std::string rest;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(STDIN_FILENO, buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR)) {
    if (got < 0) continue;
    rest.append(buffer, static_cast<std::size_t>(got));
    for (std::size_t end = 0; (end = rest.find('\0')) != std::string::npos; rest.erase(0, end + 1)) {
      const std::string entry = rest.substr(0, end);
      if (entry == "goodbye") _exit(0);
      if (entry == "job_is_over") {
        std::erase_if(told, [](const auto& each) { return each.first != "run_directory"; });
        continue;
      }
      told[entry.substr(0, entry.find('='))] = entry;
    }
  }
  kill_job(told, "MUSTER_JOB_ID");
  kill_job(told, "template_job");
  if (told.contains("run_directory"))
    remove_run_directory(told["run_directory"].substr(sizeof "run_directory"));
  if (told.contains("segments_of")) remove_segments_of(told);
  _exit(0);
}

}  // namespace

Status Guardian::start() {
  if (pid_ != 0) return {};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_failure("cannot make the guardian's pipe", errno);
  const UniqueFd theirs(ends[0]);
  UniqueFd ours(ends[1]);
  const pid_t pid = fork();
  const int error = errno;
  if (pid < 0) return system_failure("cannot start the guardian" + nearest_process_limit(error), error);
  if (pid == 0) guard(theirs.get());
  pid_ = pid;
  pipe_ = std::move(ours);
  run_directory_.clear();
  return {};
}

Guardian::~Guardian() {
  if (!pipe_) return;
  if (inherits_) {
    pipe_.release();  // the pipe ends with this process; the guardian might otherwise kill this process first
    return;
  }
  // This fails if the guardian is already gone. That does no harm.
  (void)write_all(pipe_.get(), {"goodbye", sizeof "goodbye"}, "the guardian's pipe");
}

void Guardian::job_is_over() {
  next_ = std::string("job_is_over", sizeof "job_is_over");
}

void Guardian::guard_template(const std::string& job_id) {
  tell("template_job", job_id);
}

void Guardian::guard_job(const std::string& job_id, NodeId node) {
  next_ += fmt::format("MUSTER_JOB_ID={}", job_id) + '\0';
  tell("MUSTER_NODE_ID", std::to_string(node.value()));
}

void Guardian::keep_from(Incarnation incarnation) {
  tell("keep_from", fmt::format("{}", incarnation));
}

void Guardian::guard_segments(Incarnation incarnation) {
  tell("segments_of", fmt::format("{}", incarnation));
}

void Guardian::guard_run_directory(const std::string& directory) {
  if (std::exchange(run_directory_, directory) != directory) tell("run_directory", directory);
}

void Guardian::tell(const std::string& name, const std::string& value) {
  if (!pipe_) return;
  next_ += name + "=" + value + '\0';
  const Status told = write_all(pipe_.get(), std::exchange(next_, {}), "the guardian's pipe");
  if (!told) log::error("the guardian is gone: {}", told.error().message());
}

}  // namespace muster::agent
