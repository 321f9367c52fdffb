// A small disk, and limits on memory and processor, for a test. Both need root.
//
// The destructors remove them. Mounts and groups are only made below the trial's own directories.
#pragma once

#include <cstdint>
#include <string>

#include "tests/cgroup_hierarchy.h"

namespace muster::chaos {

// Why this process cannot make them; empty: it can.
std::string why_no_small_disk();
std::string why_no_control_group(const std::string& controller);

// A tmpfs of this size on a new directory.
class SmallDisk {
 public:
  SmallDisk(std::string path, std::uint64_t size_bytes);
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk();
  const std::string& path() const { return path_; }
  bool full() const;
  // Fills the disk with a file, until release().
  void fill();
  void release();

 private:
  std::string path_;
};

// A cgroup of one controller, in version 1 or 2. Processes started between enter() and leave() belong to it.
class ControlGroup {
 public:
  explicit ControlGroup(const std::string& controller);
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;
  ~ControlGroup();
  const CgroupHierarchy& hierarchy() const { return hierarchy_; }
  void set(const CgroupHierarchy::Setting& setting) const;
  void enter() const;
  void leave() const;
  // The number after `key` in one of its files.
  long read(const std::string& file, const std::string& key) const;

 private:
  CgroupHierarchy hierarchy_;
  std::string path_, home_;
};

}  // namespace muster::chaos
