// Where a test can make a control group for a controller, and the names of its files there: version 1 has a
// hierarchy a controller, version 2 one for all.
//
// Text and values only; making groups is for the caller.
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

  using Setting = std::pair<std::string, std::string>;  // a file, and what is written to it
  Setting memory_limit(std::int64_t bytes) const {
    return {unified ? "memory.max" : "memory.limit_in_bytes", std::to_string(bytes)};
  }
  // Of each 100 ms, on all processors together.
  Setting processor_time(std::int64_t microseconds) const {
    if (unified) return {"cpu.max", std::to_string(microseconds) + " 100000"};
    return {"cpu.cfs_quota_us", std::to_string(microseconds)};  // the period is 100 ms from the start
  }
  std::string oom_file() const { return unified ? "memory.events" : "memory.oom_control"; }  // with oom_kill
};

// The one of version 1 if there is one. `root`: where the kernel's file system is, or a copy of it.
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

// Where version 2 is mounted, beside version 1 or alone; every group there can be frozen and killed.
inline std::optional<std::string> unified_hierarchy(const std::string& root = "/sys/fs/cgroup") {
  for (const std::string& directory : {root, root + "/unified"}) {
    if (std::filesystem::exists(directory + "/cgroup.controllers")) return directory;
  }
  return std::nullopt;
}

// A group for this controller must be made below one that passes the controller on. True if it does already,
// and for version 1.
inline bool pass_on(const CgroupHierarchy& hierarchy, const std::string& controller) {
  if (!hierarchy.unified) return true;
  std::ofstream(hierarchy.directory + "/cgroup.subtree_control") << "+" << controller;
  std::stringstream passed_on;
  passed_on << std::ifstream(hierarchy.directory + "/cgroup.subtree_control").rdbuf();
  return (" " + passed_on.str()).find(" " + controller) != std::string::npos;
}

}  // namespace muster
