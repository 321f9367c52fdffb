// Where a process's control groups lie in the file system, from the kernel's two tables: /proc/PID/cgroup and
// /proc/self/mountinfo; and what their small files say.
//
// Version 1 (one hierarchy a controller), version 2 (one for all) and both at once. Text in, values out.
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

// The group of version 1 that holds the process for this controller, else its group of version 2, which may
// or may not have the controller. Nothing if it is not mounted where we can see it.
std::optional<Cgroup> find_cgroup(std::string_view process_cgroups, std::string_view mountinfo,
                                  std::string_view controller);
// The process's group of version 2.
std::optional<Cgroup> find_unified_cgroup(std::string_view process_cgroups, std::string_view mountinfo);

// How many processes of this very group the kernel has killed for want of memory. `read` gives a file's
// text, or "" if it cannot be read. Nothing for the root of version 2, and for a group that is gone.
std::optional<std::int64_t> oom_kills_in(const Cgroup& group,
                                         const std::function<std::string(const std::string& path)>& read);

// The least limit on memory that holds for the group, its own or one of a group above it; 0 for none.
std::int64_t memory_limit_of(const Cgroup& group,
                             const std::function<std::string(const std::string& path)>& read);

// The number after "KEY " at the start of a line, as in memory.events: "oom_kill 3".
std::optional<std::int64_t> number_of(std::string_view text, std::string_view key);

}  // namespace muster::agent
