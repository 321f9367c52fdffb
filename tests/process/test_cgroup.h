// A control group for a test, in a given hierarchy of version 1 or 2. The destructor removes it.
//
// Needs root and a writable hierarchy; made() says whether it exists.
#pragma once

#include <atomic>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <string>
#include <unistd.h>

#include "tests/cgroup_hierarchy.h"
#include "tests/process/agent_test_launcher.h"

namespace muster {

class TestCgroup {
 public:
  explicit TestCgroup(const std::string& hierarchy) {
    static std::atomic<int> count = 0;
    directory_ = fmt::format("{}/muster-test-{}-{}", hierarchy, getpid(), ++count);
    std::error_code error;
    made_ = std::filesystem::create_directory(directory_, error);
  }
  TestCgroup(const TestCgroup&) = delete;
  TestCgroup& operator=(const TestCgroup&) = delete;
  ~TestCgroup() {
    // The kernel removes dead processes a moment later.
    eventually([this] { return !made_ || rmdir(directory_.c_str()) == 0; });
  }
  // For this controller, in the version that has it.
  TestCgroup(const CgroupHierarchy& hierarchy, const std::string& controller)
      : TestCgroup(pass_on(hierarchy, controller) ? hierarchy.directory : "/nowhere") {}
  bool made() const { return made_; }
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(directory_ + "/" + file) << text;
  }

 private:
  std::string directory_;
  bool made_ = false;
};

// A group in a freezer hierarchy of version 1, where signals do not reach frozen processes. The destructor
// thaws it.
class FrozenGroup {
 public:
  FrozenGroup() = default;
  FrozenGroup(const FrozenGroup&) = delete;
  FrozenGroup& operator=(const FrozenGroup&) = delete;
  ~FrozenGroup() { thaw(); }
  bool made() const { return group_.made(); }
  void freeze(const std::string& pid) {
    group_.write("cgroup.procs", pid);
    group_.write("freezer.state", "FROZEN");
  }
  void thaw() { group_.write("freezer.state", "THAWED"); }

 private:
  TestCgroup group_{"/sys/fs/cgroup/freezer"};
};

}  // namespace muster
