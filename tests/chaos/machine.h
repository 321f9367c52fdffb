// What a trial borrows from this machine: a small disk, and a limit on memory. Both need root.
//
// Given back by the destructor. Mounted and made only below directories of the trial's own.
#pragma once

#include <cstdint>
#include <string>

namespace muster::chaos {

// Whether this process may make them, and if not, why.
std::string why_no_small_disk();
std::string why_no_memory_limit();

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

// A memory cgroup (v1) that processes started within enter() and leave() belong to.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::uint64_t limit_bytes);
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  ~MemoryLimit();
  void enter() const;
  void leave() const;
  int kill_count() const;

 private:
  std::string path_, home_;
};

}  // namespace muster::chaos
