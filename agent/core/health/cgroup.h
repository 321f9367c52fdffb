// Finds a process's control groups in the file system, from two tables of the kernel, /proc/PID/cgroup and
// /proc/self/mountinfo, and reads the numbers in the groups' small files.
//
// Handles version 1 (one hierarchy per controller), version 2 (one for all) and both at once. Text in, values
// out.
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

// Returns the process's group of version 1 for this controller, or else its group of version 2, which may
// lack the controller. Returns nothing if the group is not mounted where this process can see it.
std::optional<Cgroup> find_cgroup(std::string_view process_cgroups, std::string_view mountinfo,
                                  std::string_view controller);
// The process's group of version 2.
std::optional<Cgroup> find_unified_cgroup(std::string_view process_cgroups, std::string_view mountinfo);

// Returns how many processes of this group, without its child groups, the kernel has killed because memory
// ran out. Returns nothing for the root of version 2, and for a group that is gone. `read` returns a file's
// text, or "" if the file cannot be read.
std::optional<std::int64_t> oom_kills_in(const Cgroup& group,
                                         const std::function<std::string(const std::string& path)>& read);

// The lowest memory limit that applies to the group, its own or that of a parent group; 0 if there is none.
std::int64_t memory_limit_of(const Cgroup& group,
                             const std::function<std::string(const std::string& path)>& read);

// The number after "KEY " at the start of a line. memory.events, for example, has "oom_kill 3".
std::optional<std::int64_t> number_of(std::string_view text, std::string_view key);

}  // namespace muster::agent
