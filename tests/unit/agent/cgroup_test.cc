#include "agent/core/health/cgroup.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>

#include "tests/cgroup_hierarchy.h"
#include "tests/scratch_directory.h"

namespace muster::agent {
namespace {

constexpr const char* kHybrid =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:1 master:2 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
constexpr const char* kUnified = "35 24 0:30 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(FindCgroup, PrefersTheControllersOwnHierarchyToVersionTwo) {
  const char* own = "7:memory:/jobs/a\n3:cpu,cpuacct:/\n0::/jobs/b\n";
  EXPECT_EQ(find_cgroup(own, kHybrid, "memory"), (Cgroup{"/sys/fs/cgroup/memory/jobs/a", false}));
  EXPECT_EQ(find_cgroup(own, kHybrid, "cpuacct"), (Cgroup{"/sys/fs/cgroup/cpu,cpuacct", false}));
  EXPECT_EQ(find_cgroup(own, kHybrid, "freezer"), (Cgroup{"/sys/fs/cgroup/unified/jobs/b", true}));
  EXPECT_EQ(find_unified_cgroup(own, kHybrid), (Cgroup{"/sys/fs/cgroup/unified/jobs/b", true}));
}

TEST(FindCgroup, FindsVersionTwo) {
  EXPECT_EQ(find_cgroup("0::/user.slice/x.scope\n", kUnified, "memory"),
            (Cgroup{"/sys/fs/cgroup/user.slice/x.scope", true}));
  EXPECT_EQ(find_cgroup("0::/\n", kUnified, "memory"), (Cgroup{"/sys/fs/cgroup", true}));
}

TEST(FindCgroup, FollowsAContainersMount) {
  const char* mounts = "9 8 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
  EXPECT_EQ(find_cgroup("4:memory:/docker/abc\n", mounts, "memory"),
            (Cgroup{"/sys/fs/cgroup/memory", false}));
  EXPECT_EQ(find_cgroup("4:memory:/docker/abc/in\n", mounts, "memory"),
            (Cgroup{"/sys/fs/cgroup/memory/in", false}));
  EXPECT_EQ(find_cgroup("4:memory:/docker/abcd\n", mounts, "memory"), std::nullopt);
  EXPECT_EQ(find_cgroup("0::/../other\n", kUnified, "memory"), std::nullopt);
}

TEST(FindCgroup, ReadsEscapedPathsAndNothingFromGarbage) {
  EXPECT_EQ(find_cgroup("0::/a\n", "1 2 0:3 / /my\\040groups rw - cgroup2 none rw\n", "memory"),
            (Cgroup{"/my groups/a", true}));
  for (const char* text :
       {"", "\n", ":", "::", "0:", "0::", "x::/a", "1:memory", "- - -", "1 2 3 - cgroup2"}) {
    EXPECT_EQ(find_cgroup(text, text, "memory"), std::nullopt) << text;
    EXPECT_EQ(find_cgroup(text, kHybrid, "memory").has_value(), std::string(text) == "0::") << text;
    EXPECT_EQ(find_cgroup("0::/a", text, "memory"), std::nullopt) << text;
  }
}

TEST(NumberOf, FindsTheWholeKey) {
  const char* events = "low 1\noom 2\noom_kill 3\noom_group_kill 4\n";
  EXPECT_EQ(number_of(events, "oom_kill"), 3);
  EXPECT_EQ(number_of(events, "oom"), 2);
  EXPECT_EQ(number_of(events, "kill"), std::nullopt);
  EXPECT_EQ(number_of("oom_kill x\n", "oom_kill"), std::nullopt);
  EXPECT_EQ(number_of("", "oom_kill"), std::nullopt);
}

TEST(OomKills, CountTheGroupItselfAndNotItsChildGroups) {
  std::map<std::string, std::string> files{{"/v2/memory.events", "oom 9\noom_kill 7\n"},
                                           {"/v2/memory.events.local", "oom 1\noom_kill 2\n"},
                                           {"/v1/memory.oom_control", "under_oom 0\noom_kill 5\n"}};
  const auto read = [&files](const std::string& path) { return files[path]; };
  EXPECT_EQ(oom_kills_in({"/v2", true}, read), 2);
  EXPECT_EQ(oom_kills_in({"/v1", false}, read), 5);
  files.erase("/v2/memory.events.local");
  EXPECT_EQ(oom_kills_in({"/v2", true}, read), 7) << "an older kernel has only this file";
  EXPECT_EQ(oom_kills_in({"/gone", true}, read), std::nullopt);
  EXPECT_EQ(oom_kills_in({"/gone", false}, read), std::nullopt);
}

// The files that Debian 12 has for a service in a limited slice.
TEST(MemoryLimit, InVersionTwoIsTheLowestOfAllParents) {
  std::map<std::string, std::string> files{{"/sys/fs/cgroup/jobs.slice/memory.max", "8589934592\n"},
                                           {"/sys/fs/cgroup/jobs.slice/train.service/memory.max", "max\n"}};
  const auto read = [&files](const std::string& path) { return files[path]; };
  const Cgroup group{"/sys/fs/cgroup/jobs.slice/train.service", true};
  EXPECT_EQ(memory_limit_of(group, read), 8589934592);
  files[group.directory + "/memory.max"] = "1073741824\n";
  EXPECT_EQ(memory_limit_of(group, read), 1073741824);
  files.clear();
  files[group.directory + "/memory.max"] = "max\n";
  EXPECT_EQ(memory_limit_of(group, read), 0);
  EXPECT_EQ(memory_limit_of({"/sys/fs/cgroup", true}, read), 0) << "the root has no such file";
}

TEST(MemoryLimit, InVersionOneIsTheOneThatTheKernelHasComputed) {
  std::map<std::string, std::string> files{
      {"/v1/memory.stat", "cache 1\nhierarchical_memory_limit 268435456\ntotal_cache 1\n"}};
  const auto read = [&files](const std::string& path) { return files[path]; };
  EXPECT_EQ(memory_limit_of({"/v1", false}, read), 268435456);
  files["/v1/memory.stat"] = "hierarchical_memory_limit 9223372036854771712\n";
  EXPECT_EQ(memory_limit_of({"/v1", false}, read), 0);
}

// The groups of this test's own process, on machines of either version.
TEST(CgroupHierarchy, IsFoundWhereverTheControllerIs) {
  const ScratchDirectory root;
  const std::string place = root.path().string();
  EXPECT_FALSE(cgroup_hierarchy("memory", place));
  EXPECT_FALSE(unified_hierarchy(place));
  std::ofstream(root / "cgroup.controllers") << "cpuset cpu io memory pids\n";
  const auto unified = cgroup_hierarchy("memory", place);
  ASSERT_TRUE(unified);
  EXPECT_EQ(unified->directory, place);
  EXPECT_EQ(unified->memory_limit(4096), std::pair(std::string("memory.max"), std::string("4096")));
  EXPECT_EQ(unified->processor_time(5000), std::pair(std::string("cpu.max"), std::string("5000 100000")));
  EXPECT_EQ(unified->oom_file(), "memory.events");
  EXPECT_FALSE(cgroup_hierarchy("freezer", place));
  EXPECT_EQ(unified_hierarchy(place), place);
  std::filesystem::create_directory(root / "memory");
  std::ofstream(root / "memory/cgroup.procs") << "1\n";
  const auto own = cgroup_hierarchy("memory", place);
  ASSERT_TRUE(own);
  EXPECT_EQ(own->directory, root / "memory");
  EXPECT_EQ(own->memory_limit(4096).first, "memory.limit_in_bytes");
  EXPECT_EQ(own->oom_file(), "memory.oom_control");
}

}  // namespace
}  // namespace muster::agent
