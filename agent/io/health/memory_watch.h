// Finds evidence that the kernel killed a worker because memory ran out: compares the kernel's counters of
// such kills with their earlier values.
//
// - If the worker's memory cgroup (version 1 or 2) has a counter, MemoryWatch compares it with its value when
//   the cgroup was first seen. This counter includes kills that happened because the whole machine ran out of
//   memory.
// - Otherwise MemoryWatch compares the counter in /proc/vmstat with its value at the last look. This counter
//   includes kills of other processes.
// The caller decides whether a worker's death was one of these kills. One thread.
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
  // Records the counter of this process's group, in which workers start. `mountinfo`: of /proc/self; must
  // outlive this object.
  explicit MemoryWatch(std::string_view mountinfo);
  // Records each worker's control group. Call once a second, because a worker can be moved to another one.
  void look(const std::map<Rank, pid_t>& pids);
  // Adds the evidence about a worker that has just been killed.
  void add_evidence(pid_t pid, wire::WorkerExited& exited) const;

 private:
  std::optional<Cgroup> group_of(const std::string& process) const;  // "self" or a pid
  void note(const Cgroup& group);

  std::string_view mountinfo_;
  std::optional<Cgroup> own_;
  std::map<pid_t, Cgroup> groups_;             // only those other than `own_`, at the last look
  std::map<std::string, std::int64_t> kills_;  // by directory: the count when first seen
  std::int64_t machine_kills_ = 0;             // at the last look
};

}  // namespace muster::agent
