// Evidence that the kernel killed a worker for want of memory: its counters, compared with what they were.
//
// The counter of the worker's memory cgroup (version 1 or 2) counts from the attempt's start, kills for want
// of memory of the whole machine included. /proc/vmstat, compared with the look before, counts kills of
// others too, and counts only where the group has no counter. Whether a death was one of these is for the
// reader. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "agent/core/health/cgroup.h"
#include "common/wire/messages.h"

namespace muster::agent {

class MemoryWatch {
 public:
  // Notes the counters of our own group, in which workers begin. `mountinfo`: of /proc/self, and outlives it.
  explicit MemoryWatch(std::string_view mountinfo);
  // To be called once a second: a worker may have been moved to another group.
  void look(const std::map<Rank, pid_t>& pids);
  // Adds the evidence about a worker that was killed just now.
  void add_evidence(pid_t pid, wire::WorkerExited& exited) const;

 private:
  std::optional<Cgroup> group_of(const std::string& process) const;  // "self" or a pid
  void note(const Cgroup& group);

  std::string_view mountinfo_;
  std::optional<Cgroup> own_;
  std::map<pid_t, Cgroup> groups_;             // at the last look
  std::map<std::string, std::int64_t> kills_;  // of a group, by directory, when it was first seen
  std::int64_t machine_kills_ = 0;             // at the last look
};

}  // namespace muster::agent
