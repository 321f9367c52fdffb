// Finds the directories of a process's control groups, and reads the numbers in their files. The inputs are
// two tables of the kernel: /proc/PID/cgroup and /proc/self/mountinfo.
//
// Supports cgroup version 1 (one hierarchy per controller), version 2 (one hierarchy for all controllers),
// and hosts that use both. Pure functions: they take text and return values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace muster::agent {

struct Cgroup {
  std::string directory;
  bool unified = false;  // version 2
  bool operator==(const Cgroup&) const = default;
};

// Returns the process's group of version 1 for this controller. If there is none, returns the process's group
// of version 2, which need not have the controller. Returns nothing if neither group is mounted at a place
// where this process can see it.
std::optional<Cgroup> find_cgroup(std::string_view process_cgroups, std::string_view mountinfo,
                                  std::string_view controller);
// Returns the process's version 2 group.
std::optional<Cgroup> find_unified_cgroup(std::string_view process_cgroups, std::string_view mountinfo);

// Returns how many processes of this group the kernel has killed because memory ran out. Processes in child
// groups do not count. Returns nothing if the group is the root of version 2, or if it is gone. `read`
// returns the text of a file, or "" if the file cannot be read.
std::optional<std::int64_t> oom_kills_in(const Cgroup& group,
                                         const std::function<std::string(const std::string& path)>& read);

// Returns the lowest memory limit, in bytes, of the group and all its parent groups. Returns 0 if none of
// them has a limit.
std::int64_t memory_limit_of(const Cgroup& group,
                             const std::function<std::string(const std::string& path)>& read);

// Returns the number N of the first line "KEY N" in the text. For example, memory.events has "oom_kill 3".
std::optional<std::int64_t> number_of(std::string_view text, std::string_view key);

}  // namespace muster::agent
