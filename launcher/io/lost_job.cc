#include "launcher/io/lost_job.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/text.h"
#include "launcher/io/stop_signal.h"
#include "launcher/io/view/job_files.h"

namespace muster::launcher {

namespace {

constexpr Duration kShortestPause = std::chrono::milliseconds(10);  // between two looks
constexpr Duration kLongestPause = std::chrono::milliseconds(200);
constexpr Duration kDeathLimit = std::chrono::seconds(5);  // after SIGKILL
constexpr std::size_t kMostCommandBytes = 16 << 20;

bool is_living_agent(pid_t pid) {
  return muster::name_of(pid) == "muster-agent" && !is_exiting(pid);
}

Leftover leftover_of(pid_t pid, int error) {
  return {.pid = pid, .name = muster::name_of(pid), .uid = muster::user_of(pid).value_or(-1), .error = error};
}

}  // namespace

bool LostJob::was_given(const std::string& checkpoint_directory) const {
  constexpr std::string_view kName = "MUSTER_CHECKPOINT_DIR=";
  return std::ranges::any_of(processes_, [&](pid_t pid) {
    const std::string environment = environment_of(pid);
    std::error_code ignored;
    return std::ranges::any_of(split(environment, '\0'), [&](std::string_view entry) {
      return entry.starts_with(kName) &&
             std::filesystem::equivalent(entry.substr(kName.size()), checkpoint_directory, ignored);
    });
  });
}

// Returns whether anything is left.
bool LostJob::look() {
  processes_ = processes_by_job()[job_];
  for (const pid_t pid : processes_) {
    if (const pid_t leader = getsid(pid); is_living_agent(leader)) agents_.insert(leader);
  }
  std::erase_if(agents_, [](pid_t pid) { return !is_living_agent(pid); });
  return !processes_.empty() || !agents_.empty();
}

Expected<int> LostJob::end(Duration grace, int signals) {
  asio::io_context context(1);
  int stopped_by = 0;
  const StopSignal stop(context, signals, [&stopped_by](int number) { stopped_by = number; });
  const TimePoint kill_at = Clock::now() + grace;
  Duration pause = kShortestPause;
  // A look can miss a process that is forked meanwhile. So two looks in a row must find nothing.
  for (int clean_looks = 0; clean_looks < 2 && stopped_by == 0;) {
    clean_looks = look() ? 0 : clean_looks + 1;
    if (clean_looks > 0) continue;
    terminate();
    if (const auto left = forbidden()) return failure(ErrorCode::kFenced, "{}", describe(*left));
    const TimePoint now = Clock::now();
    if (now > kill_at + kDeathLimit) {
      const pid_t left = processes_.empty() ? *agents_.begin() : processes_.front();
      return failure(ErrorCode::kFenced, "{}", describe(leftover_of(left, 0)));
    }
    if (now > kill_at) kill_all();
    context.run_for(std::exchange(pause, std::min(2 * pause, kLongestPause)));
  }
  return stopped_by;
}

// Returns a process that this user is not allowed to end.
std::optional<Leftover> LostJob::forbidden() const {
  std::vector<pid_t> all = processes_;
  all.insert(all.end(), agents_.begin(), agents_.end());
  const auto found = std::ranges::find_if(all, [](pid_t pid) { return kill(pid, 0) != 0 && errno == EPERM; });
  return found == all.end() ? std::nullopt : std::optional(leftover_of(*found, EPERM));
}

void LostJob::terminate() {
  for (const pid_t pid : agents_) tell(pid);
  if (!agents_.empty()) return;
  for (const pid_t pid : processes_) tell(pid);
}

// Signals each process once only: a second SIGTERM may end a program at once that is still saving.
void LostJob::tell(pid_t pid) {
  if (told_.insert(pid).second) kill(pid, SIGTERM);
}

void LostJob::kill_all() const {
  for (const pid_t pid : processes_) kill(pid, SIGKILL);
  for (const pid_t pid : agents_) kill(pid, SIGKILL);
}

std::optional<pid_t> lost_agent_of(uid_t user) {
  std::error_code error;
  std::filesystem::directory_iterator next("/proc", error);
  for (; !error && next != std::filesystem::directory_iterator(); next.increment(error)) {
    const auto pid = parse_number<pid_t>(next->path().filename().string());
    if (!pid || !is_living_agent(*pid) || muster::user_of(*pid) != user) continue;
    // Agents of launchers on other hosts have other flags. The parent of a local agent is its launcher.
    const std::string line = read_file(next->path() / "cmdline", kMostCommandBytes).value_or("");
    if (line.contains("--control-fd") && muster::name_of(parent_of(*pid)) != "launch") return pid;
  }
  return std::nullopt;
}

}  // namespace muster::launcher
