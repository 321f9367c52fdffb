#include "tests/chaos/machine.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <vector>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/text.h"

namespace muster::chaos {

namespace {

const std::string kMemory = "/sys/fs/cgroup/memory";

void write_to(const std::string& path, const std::string& text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  CHECK(file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()),
        "{} to {}: {}", text, path, std::strerror(errno));
}

// Where this process is in the hierarchy.
std::string own_memory_cgroup() {
  const std::string text = read_file("/proc/self/cgroup", 1 << 16).value_or("");
  for (const std::string_view line : split(text, '\n')) {
    const auto parts = split(line, ':');
    if (parts.size() == 3 && parts[1] == "memory") return kMemory + std::string(parts[2]);
  }
  return kMemory;
}

}  // namespace

std::string why_no_small_disk() {
  return geteuid() == 0 ? "" : "only root may mount";
}

std::string why_no_memory_limit() {
  if (geteuid() != 0) return "only root may make a cgroup";
  return access((kMemory + "/memory.oom_control").c_str(), F_OK) == 0
             ? ""
             : "there is no memory cgroup of version 1";
}

SmallDisk::SmallDisk(std::string path, std::uint64_t size_bytes) : path_(std::move(path)) {
  CHECK(mkdir(path_.c_str(), 0755) == 0, "{}: {}", path_, std::strerror(errno));
  const std::string size = "size=" + std::to_string(size_bytes);
  CHECK(mount("tmpfs", path_.c_str(), "tmpfs", 0, size.c_str()) == 0, "{}: {}", path_, std::strerror(errno));
}

SmallDisk::~SmallDisk() {
  umount2(path_.c_str(), MNT_DETACH);
}

bool SmallDisk::full() const {
  struct statvfs space{};
  return statvfs(path_.c_str(), &space) == 0 && space.f_bavail == 0;
}

void SmallDisk::fill() {
  const UniqueFd file(open((path_ + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  const std::vector<char> page(4096, 'x');
  while (write(file.get(), page.data(), page.size()) > 0) {
  }
}

void SmallDisk::release() {
  unlink((path_ + "/filler").c_str());
}

MemoryLimit::MemoryLimit(std::uint64_t limit_bytes) : home_(own_memory_cgroup()) {
  static int count = 0;
  path_ = fmt::format("{}/muster-chaos-{}-{}", kMemory, getpid(), ++count);
  CHECK(mkdir(path_.c_str(), 0755) == 0, "{}: {}", path_, std::strerror(errno));
  write_to(path_ + "/memory.limit_in_bytes", std::to_string(limit_bytes));
}

MemoryLimit::~MemoryLimit() {
  rmdir(path_.c_str());
}

void MemoryLimit::enter() const {
  write_to(path_ + "/cgroup.procs", std::to_string(getpid()));
}

void MemoryLimit::leave() const {
  write_to(home_ + "/cgroup.procs", std::to_string(getpid()));
}

int MemoryLimit::kill_count() const {
  std::ifstream file(path_ + "/memory.oom_control");
  for (std::string name, value; file >> name >> value;) {
    if (name == "oom_kill") return std::stoi(value);
  }
  return 0;
}

}  // namespace muster::chaos
