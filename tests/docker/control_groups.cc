#include "tests/docker/control_groups.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <thread>
#include <unistd.h>

#include "common/base/check.h"

namespace muster::docker {

namespace {

namespace fs = std::filesystem;

constexpr const char* kControlGroups = "/sys/fs/cgroup";

// It and those below it, the deepest first.
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
      for (pid_t pid = 0; file >> pid;) found.push_back(pid);
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

}  // namespace muster::docker
