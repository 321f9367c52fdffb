#include "tests/chaos/machine.h"

#include <cerrno>
#include <cstdlib>
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

void write_to(const std::string& path, const std::string& text) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  CHECK(file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()),
        "{} to {}: {}", text, path, std::strerror(errno));
}

// The group of this process in the hierarchy.
std::string own_group(const CgroupHierarchy& hierarchy, const std::string& controller) {
  const std::string text = read_file("/proc/self/cgroup", 1 << 16).value_or("");
  for (const std::string_view line : split(text, '\n')) {
    const auto parts = split(line, ':');
    const bool wanted = parts.size() == 3 && (hierarchy.unified ? parts[0] == "0" : parts[1] == controller);
    if (wanted) return hierarchy.directory + std::string(parts[2]);
  }
  return hierarchy.directory;
}

}  // namespace

std::string why_no_small_disk() {
  // Even root in a container may lack the permission.
  constexpr int kSysAdmin = 21;
  const std::string status = read_file("/proc/self/status", 1 << 16).value_or("");
  const std::size_t at = status.find("CapEff:");
  const auto capabilities = at == std::string::npos ? 0 : std::strtoull(status.c_str() + at + 7, nullptr, 16);
  return (capabilities >> kSysAdmin & 1) != 0 ? "" : "mounting needs CAP_SYS_ADMIN";
}

std::string why_no_control_group(const std::string& controller) {
  if (geteuid() != 0) return "only root may make a cgroup";
  const auto hierarchy = cgroup_hierarchy(controller);
  if (!hierarchy) return fmt::format("no hierarchy of cgroups has the controller {}", controller);
  for (const std::string& group : {hierarchy->directory, own_group(*hierarchy, controller)}) {
    if (access((group + "/cgroup.procs").c_str(), W_OK) != 0)
      return fmt::format("{} may not be changed", group);
  }
  if (!pass_on(*hierarchy, controller))
    return fmt::format("{} does not pass the controller {} on", hierarchy->directory, controller);
  return "";
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

ControlGroup::ControlGroup(const std::string& controller)
    : hierarchy_(cgroup_hierarchy(controller).value()), home_(own_group(hierarchy_, controller)) {
  static int count = 0;
  path_ = fmt::format("{}/muster-test-{}-{}", hierarchy_.directory, getpid(), ++count);
  CHECK(mkdir(path_.c_str(), 0755) == 0, "{}: {}", path_, std::strerror(errno));
}

void ControlGroup::set(const CgroupHierarchy::Setting& setting) const {
  write_to(path_ + "/" + setting.first, setting.second);
}

ControlGroup::~ControlGroup() {
  rmdir(path_.c_str());
}

void ControlGroup::enter() const {
  write_to(path_ + "/cgroup.procs", std::to_string(getpid()));
}

void ControlGroup::leave() const {
  write_to(home_ + "/cgroup.procs", std::to_string(getpid()));
}

long ControlGroup::read(const std::string& file, const std::string& key) const {
  std::ifstream in(path_ + "/" + file);
  for (std::string name, value; in >> name >> value;) {
    if (name == key) return std::stol(value);
  }
  return 0;
}

}  // namespace muster::chaos
