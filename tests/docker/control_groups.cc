#include "tests/docker/control_groups.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <set>
#include <thread>
#include <unistd.h>

#include "common/base/check.h"

namespace muster::docker {

namespace {

namespace fs = std::filesystem;

constexpr const char* kControlGroups = "/sys/fs/cgroup";
// The prefix of the names; the pid of the owner follows, as seen in this pid namespace.
std::string prefix() {
  const std::string space = fs::read_symlink("/proc/self/ns/pid");
  return fmt::format("muster-test-docker-{}-",
                     std::strtoul(space.c_str() + std::strlen("pid:["), nullptr, 10));
}

// The group and those below it, the deepest first.
std::vector<fs::path> with_those_below(const fs::path& group) {
  std::vector<fs::path> found{group};
  std::error_code gone;
  for (fs::recursive_directory_iterator at(group, gone), end; !gone && at != end; at.increment(gone)) {
    if (at->is_directory(gone)) found.push_back(at->path());
  }
  std::ranges::sort(found, std::greater{});
  return found;
}

}  // namespace

std::vector<fs::path> groups_called(const std::string& name) {
  std::vector<fs::path> found;
  if (fs::exists(fs::path(kControlGroups) / name)) found.push_back(fs::path(kControlGroups) / name);
  for (const auto& hierarchy : fs::directory_iterator(kControlGroups)) {
    if (hierarchy.is_directory() && fs::exists(hierarchy.path() / name))
      found.push_back(hierarchy.path() / name);
  }
  return found;
}

std::vector<pid_t> processes_in(const std::string& name) {
  std::vector<pid_t> found;
  for (const fs::path& group : groups_called(name)) {
    for (const fs::path& path : with_those_below(group)) {
      std::ifstream file(path / "cgroup.procs");
      for (pid_t pid = 0; file >> pid;) {
        if (pid > 0) found.push_back(pid);  // 0: in another pid namespace
      }
    }
  }
  std::ranges::sort(found);
  found.erase(std::ranges::unique(found).begin(), found.end());
  return found;
}

void thaw(const std::string& name) {
  for (const fs::path& path : with_those_below(fs::path(kControlGroups) / "freezer" / name)) {
    if (fs::exists(path / "freezer.state")) std::ofstream(path / "freezer.state") << "THAWED";
  }
}

void remove_groups(const std::string& name) {
  for (int tries = 0; tries < 500; ++tries) {
    const auto left = groups_called(name);
    if (left.empty()) return;
    for (const fs::path& group : left) {
      for (const fs::path& path : with_those_below(group)) rmdir(path.c_str());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(groups_called(name).empty(), "cgroups called {} are left", name);
}

std::string new_group_name() {
  static int count = 0;
  return fmt::format("{}{}-{}", prefix(), getpid(), ++count);
}

void remove_groups_of_the_dead() {
  const std::string ours = prefix();
  std::set<std::string> names;
  for (const auto& hierarchy : fs::directory_iterator(kControlGroups)) {
    if (!hierarchy.is_directory()) continue;
    for (const auto& group : fs::directory_iterator(hierarchy)) {
      const std::string name = group.path().filename();
      if (name.starts_with(ours) && ::kill(std::atoi(name.c_str() + ours.size()), 0) != 0) names.insert(name);
    }
  }
  for (const std::string& name : names) {
    for (const pid_t pid : processes_in(name)) ::kill(pid, SIGKILL);
    thaw(name);
    remove_groups(name);
  }
}

}  // namespace muster::docker
