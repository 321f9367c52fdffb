// What tests borrow from this machine: a small disk, and limits on memory and processor. Both need root.
//
// Given back by the destructor. Mounted and made only below directories of the trial's own.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace muster::chaos {

// Whether this process may make them, and if not, why.
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
  // Takes all that is left with a file, until release().
  void fill();
  void release();

 private:
  std::string path_;
};

// A cgroup (v1) of one controller, that processes started within enter() and leave() belong to.
class ControlGroup {
 public:
  // `settings`: file and what is written to it.
  ControlGroup(std::string controller, const std::vector<std::pair<std::string, std::string>>& settings);
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;
  ~ControlGroup();
  void enter() const;
  void leave() const;
  // The number after `key` in one of its files.
  long read(const std::string& file, const std::string& key) const;

 private:
  std::string path_, home_;
};

}  // namespace muster::chaos
