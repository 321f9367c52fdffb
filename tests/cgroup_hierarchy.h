// Finds where a test can create a control group for a controller, and the names of its files there. Version 1
// has a hierarchy for each controller, version 2 one for all.
//
// Text and values only; the caller creates the groups.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

namespace muster {

struct CgroupHierarchy {
  std::string directory;
  bool unified = false;

  using Setting = std::pair<std::string, std::string>;  // a file and its new content
  Setting memory_limit(std::int64_t bytes) const {
    return {unified ? "memory.max" : "memory.limit_in_bytes", std::to_string(bytes)};
  }
  // Limits the time in each 100 ms, over all processors together.
  Setting processor_time(std::int64_t microseconds) const {
    if (unified) return {"cpu.max", std::to_string(microseconds) + " 100000"};
    return {"cpu.cfs_quota_us", std::to_string(microseconds)};  // the period is 100 ms from the start
  }
  std::string oom_file() const { return unified ? "memory.events" : "memory.oom_control"; }  // key: oom_kill
};

// Prefers version 1's hierarchy. `root`: the mount of the kernel's file system, or a copy of it.
inline std::optional<CgroupHierarchy> cgroup_hierarchy(const std::string& controller,
                                                       const std::string& root = "/sys/fs/cgroup") {
  const std::string own = root + "/" + controller;
  if (std::filesystem::exists(own + "/cgroup.procs") && !std::filesystem::exists(own + "/cgroup.controllers"))
    return CgroupHierarchy{own, false};
  std::ifstream list(root + "/cgroup.controllers");
  for (std::string word; list >> word;) {
    if (word == controller) return CgroupHierarchy{root, true};
  }
  return std::nullopt;
}

// Finds the mount of version 2, alone or next to version 1; every group there can be frozen and killed.
inline std::optional<std::string> unified_hierarchy(const std::string& root = "/sys/fs/cgroup") {
  for (const std::string& directory : {root, root + "/unified"}) {
    if (std::filesystem::exists(directory + "/cgroup.controllers")) return directory;
  }
  return std::nullopt;
}

// Lets groups below this one use the controller, as version 2 requires. True if that works; version 1 needs
// nothing.
inline bool pass_on(const CgroupHierarchy& hierarchy, const std::string& controller) {
  if (!hierarchy.unified) return true;
  std::ofstream(hierarchy.directory + "/cgroup.subtree_control") << "+" << controller;
  std::stringstream passed_on;
  passed_on << std::ifstream(hierarchy.directory + "/cgroup.subtree_control").rdbuf();
  return (" " + passed_on.str()).find(" " + controller) != std::string::npos;
}

}  // namespace muster
