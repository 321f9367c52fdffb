// Finds evidence that the kernel killed a worker because memory ran out. The kernel counts such kills, and
// this class compares the counters with their earlier values.
//
// - If the worker's memory cgroup (version 1 or 2) has a counter, MemoryWatch compares it with its value when
//   MemoryWatch first saw the cgroup. This counter includes kills that happened because the whole machine ran
//   out of memory.
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
  // Workers start in the control group of this process. The constructor records how many processes this group
  // has lost to the OOM killer so far. `mountinfo` is the content of /proc/self/mountinfo. It must outlive
  // this object.
  explicit MemoryWatch(std::string_view mountinfo);
  // Notes the control group of each worker. Call this once a second, because a worker can be moved to another
  // group.
  void look(const std::map<Rank, pid_t>& pids);
  // Adds the evidence about a worker that has just been killed: the number of kills by the OOM killer, and
  // the memory limit.
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
