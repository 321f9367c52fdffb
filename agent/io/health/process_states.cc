#include "agent/io/health/process_states.h"

#include <cinttypes>
#include <cstdio>
#include <utility>

#include "agent/core/health/cgroup.h"
#include "common/base/file.h"

namespace muster::agent {

namespace {

constexpr std::size_t kMaxLineBytes = 64 << 10;

}  // namespace

std::map<Rank, ProcessState> ProcessStates::look(const std::map<Rank, pid_t>& pids) {
  FrozenGroups frozen;
  run_time_before_ = std::exchange(run_time_, {});
  std::map<Rank, ProcessState> states;
  for (const auto& [rank, pid] : pids) states[rank] = look_at(pid, frozen);
  return states;
}

ProcessState ProcessStates::look_at(pid_t pid, FrozenGroups& frozen) {
  const std::string directory = "/proc/" + std::to_string(pid);
  const auto stat = read_file(directory + "/stat", kMaxLineBytes);
  if (!stat) return ProcessState::kLive;  // it has ended, or this process has run out of descriptors
  // The file is of the form "PID (NAME) STATE ...". The name can contain anything. So the fields begin after
  // the last parenthesis.
  const std::size_t end = stat->rfind(')');
  char state = 'R';
  std::uint64_t user = 0;
  std::uint64_t system = 0;
  if (end == std::string::npos ||
      std::sscanf(stat->c_str() + end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
                  &state, &user, &system) != 3)
    return ProcessState::kLive;
  if (state == 'T') return ProcessState::kStopped;
  const auto before = run_time_before_.find(pid);
  const bool has_run = before == run_time_before_.end() || before->second != user + system;
  run_time_[pid] = user + system;
  if (!has_run && (state == 'S' || state == 'D') && in_frozen_group(directory, frozen))
    return ProcessState::kFrozen;
  // This is the state of the main thread only. Other threads may be running.
  return state == 'D' ? ProcessState::kUninterruptible : ProcessState::kLive;
}

bool ProcessStates::in_frozen_group(const std::string& directory, FrozenGroups& frozen) {
  const auto cgroups = read_file(directory + "/cgroup", kMaxLineBytes);
  if (!cgroups) return false;
  const auto [entry, is_new] = frozen.try_emplace(*cgroups, false);
  if (is_new) entry->second = is_frozen(*cgroups);
  return entry->second;
}

bool ProcessStates::is_frozen(const std::string& process_cgroups) {
  if (const auto group = find_cgroup(process_cgroups, mountinfo_, "freezer"); group && !group->unified) {
    const auto state = read_file(group->directory + "/freezer.state", kMaxLineBytes);
    if (state && *state == "FROZEN\n") return true;
  }
  const auto group = find_unified_cgroup(process_cgroups, mountinfo_);
  if (!group) return false;
  return number_of(read_file(group->directory + "/cgroup.events", kMaxLineBytes).value_or(""), "frozen") == 1;
}

}  // namespace muster::agent
