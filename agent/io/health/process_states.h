// Finds out from /proc whether the workers' processes are running, stopped, frozen by their cgroup, or in
// uninterruptible sleep.
//
// One small file is read for each process. In this file, a frozen process seems to be sleeping. So if a
// process sleeps and has not run since the last look, the files of its cgroup are read, too. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "agent/core/health/hang_watch.h"

namespace muster::agent {

class ProcessStates {
 public:
  // `mountinfo` is the content of /proc/self/mountinfo. It must outlive this object.
  explicit ProcessStates(std::string_view mountinfo) : mountinfo_(mountinfo) {}
  std::map<Rank, ProcessState> look(const std::map<Rank, pid_t>& pids);

 private:
  using FrozenGroups = std::map<std::string, bool>;  // by the text of /proc/PID/cgroup
  ProcessState look_at(pid_t pid, FrozenGroups& frozen);
  bool in_frozen_group(const std::string& directory, FrozenGroups& frozen);
  bool is_frozen(const std::string& process_cgroups);

  std::string_view mountinfo_;
  std::map<pid_t, std::uint64_t> run_time_;  // processor time at this look, in ticks
  std::map<pid_t, std::uint64_t> run_time_before_;
};

}  // namespace muster::agent
