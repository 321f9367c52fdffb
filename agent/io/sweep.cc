#include "agent/io/sweep.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <optional>
#include <poll.h>
#include <set>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/io/mpi/segments.h"
#include "common/base/file.h"
#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr Duration kForGuardians = std::chrono::milliseconds(200);
constexpr Duration kInAll = std::chrono::milliseconds(700);
// The pauses between two scans. They are short: a killed process usually disappears within a moment, and the
// next attempt waits for that.
constexpr int kFirstPauseMs = 1;
constexpr int kMostPauseMs = 10;
constexpr const char* kGuardianName = "muster-guardian";  // it has its agent's command line

struct Found {
  UniqueFd pidfd;  // opened before the process was examined, so that no other process with this pid is killed
  pid_t pid = 0;
  bool agent = false;
};

// If the process is an agent of this node, returns the agent's incarnation. Otherwise returns nothing.
std::optional<Incarnation> as_agent(pid_t pid, const SweepOrder& order) {
  const std::string line = read_file(fmt::format("/proc/{}/cmdline", pid), 16 << 20).value_or("");
  if (line.find("--identity") == std::string::npos) return std::nullopt;
  std::vector<std::string> words;
  for (const std::string_view word : split(line, '\0')) words.emplace_back(word);
  if (words.size() < 2) return std::nullopt;
  words.pop_back();  // the empty word after the last zero
  words.erase(words.begin());
  const auto arguments = parse_arguments(words);
  if (!arguments || arguments->job != order.job || arguments->agent.node != order.node) return std::nullopt;
  if (name_of(pid) == kGuardianName) return std::nullopt;
  return arguments->agent.incarnation;
}

std::vector<Found> scan(const SweepOrder& order) {
  const std::string job = "MUSTER_JOB_ID=" + order.job;
  const std::string node = fmt::format("MUSTER_NODE_ID={}", order.node);
  std::vector<Found> found;
  std::set<pid_t> kept;
  DIR* processes = opendir("/proc");
  if (processes == nullptr) return found;
  while (const dirent* entry = readdir(processes)) {
    const auto pid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
    if (pid <= 0 || pid == getpid()) continue;
    UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd) continue;
    const auto agent = order.agents ? as_agent(pid, order) : std::nullopt;
    if (agent && order.below && *agent >= *order.below)
      kept.insert(pid);
    else if (agent || (was_executed_with(pid, job) && was_executed_with(pid, node)))
      found.push_back({std::move(pidfd), pid, agent.has_value()});
  }
  closedir(processes);
  if (!kept.empty()) std::erase_if(found, [&](const Found& each) { return is_below(each.pid, kept); });
  return found;
}

Leftover describe_found(const Found& found, int error) {
  return {
      .pid = found.pid, .name = name_of(found.pid), .uid = user_of(found.pid).value_or(-1), .error = error};
}

int kill_found(const Found& found) {
  return syscall(SYS_pidfd_send_signal, found.pidfd.get(), SIGKILL, nullptr, 0) == 0 ? 0 : errno;
}

// A scan can miss a process that is forked during the scan. So two scans in a row must find no process.
void repeat_until_clean(Duration limit, const std::function<bool()>& finds_any) {
  const TimePoint give_up = Clock::now() + limit;
  int pause_ms = kFirstPauseMs;
  for (int clean_scans = 0; Clock::now() < give_up;) {
    clean_scans = finds_any() ? 0 : clean_scans + 1;
    if (clean_scans == 2) return;
    poll(nullptr, 0, pause_ms);
    pause_ms = std::min(2 * pause_ms, kMostPauseMs);
  }
}

}  // namespace

std::optional<bool> is_resource_tracker(pid_t pid) {
  const std::string line = read_file(fmt::format("/proc/{}/cmdline", pid), 64 << 10).value_or("");
  if (line.empty() && !is_exiting(pid)) return std::nullopt;
  return line.contains("resource_tracker import main");
}

void kill_all(const SweepOrder& order, Duration limit) {
  const TimePoint start = Clock::now();
  repeat_until_clean(limit, [&] {
    const std::vector<Found> found = scan(order);
    const bool waits = Clock::now() - start < kTrackerLimit;
    for (const Found& each : found) {
      if (!waits || is_resource_tracker(each.pid) == false) kill_found(each);
    }
    return !found.empty();
  });
}

std::vector<Leftover> sweep(const SweepOrder& order) {
  std::vector<Leftover> left;
  if (!order.kill) {
    for (const Found& each : scan(order)) left.push_back(describe_found(each, 0));
    return left;
  }
  const TimePoint start = Clock::now();
  bool guarded = false;
  repeat_until_clean(kInAll, [&] {
    const std::vector<Found> found = scan(order);
    guarded = guarded || std::ranges::any_of(found, &Found::agent);
    const bool wait = guarded && Clock::now() - start < kForGuardians;
    left.clear();
    for (const Found& each : found) {
      const int error = each.agent || !wait ? kill_found(each) : 0;
      if (error != ESRCH) left.push_back(describe_found(each, error));
    }
    return !found.empty();
  });
  if (left.empty()) remove_segments_below(order.job, order.node, order.below);
  return left;
}

}  // namespace muster::agent
