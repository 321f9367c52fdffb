#include "agent/io/health/memory_watch.h"

#include <algorithm>
#include <utility>

#include "common/base/file.h"
#include "common/base/process.h"
#include "common/base/text.h"

namespace muster::agent {

namespace {

constexpr std::size_t kMaxCgroupFileBytes = 4 << 20;

std::string read_cgroup_file(const std::string& path) {
  return read_file(path, kMaxCgroupFileBytes).value_or("");
}

std::int64_t machine_kills() {
  return number_of(read_cgroup_file("/proc/vmstat"), "oom_kill").value_or(0);
}

}  // namespace

MemoryWatch::MemoryWatch(std::string_view mountinfo) : mountinfo_(mountinfo), own_(group_of("self")) {
  if (own_) note(*own_);
  if (!own_ || !oom_kills_in(*own_, read_cgroup_file)) machine_kills_ = machine_kills();
}

void MemoryWatch::look(const std::map<Rank, pid_t>& pids) {
  machine_kills_ = machine_kills();
  const std::map<pid_t, Cgroup> before = std::exchange(groups_, {});
  for (const auto& [rank, pid] : pids) {
    auto group = group_of(std::to_string(pid));
    if (is_exiting(pid)) {  // in version 1, such a process is already in the topmost group
      const auto last = before.find(pid);
      if (last != before.end()) groups_.insert(*last);
      continue;
    }
    if (!group || group == own_) continue;
    note(*group);
    groups_[pid] = *std::move(group);
  }
}

void MemoryWatch::add_evidence(pid_t pid, wire::WorkerExited& exited) const {
  const auto moved = groups_.find(pid);
  const auto group = moved != groups_.end() ? std::optional(moved->second) : own_;
  const auto kills = group ? oom_kills_in(*group, read_cgroup_file) : std::nullopt;
  exited.oom_kill_count = std::max<std::int64_t>(
      0, kills ? *kills - kills_.at(group->directory) : machine_kills() - machine_kills_);
  if (kills && exited.oom_kill_count > 0)
    exited.memory_limit_bytes = memory_limit_of(*group, read_cgroup_file);
}

std::optional<Cgroup> MemoryWatch::group_of(const std::string& process) const {
  return find_cgroup(read_cgroup_file("/proc/" + process + "/cgroup"), mountinfo_, "memory");
}

void MemoryWatch::note(const Cgroup& group) {
  if (!kills_.contains(group.directory))
    kills_[group.directory] = oom_kills_in(group, read_cgroup_file).value_or(0);
}

}  // namespace muster::agent
