// Workers that are frozen with their cgroup. In version 1 no signal reaches them, and SIGKILL waits until
// they thaw; in version 2 SIGKILL ends them.
#include <csignal>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/clock.h"
#include "tests/process/launch_run.h"
#include "tests/process/test_cgroup.h"

namespace muster {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

// Two workers on a node; rank 1 is frozen as soon as both run.
class LaunchFrozen : public testing::Test {
 protected:
  void SetUp() override {
    if (!group.made()) GTEST_SKIP() << "cannot make a group in a freezer hierarchy of version 1 here";
    begin();
    group.freeze(pid);
    frozen = Clock::now();
  }
  void begin() {
    job.emplace(std::vector<std::string>{"--gpus-per-node", "2", "--grace", "1", "--max-restarts", "0", "sh",
                                         "-c", "echo pid $$ of $RANK; while :; do sleep 0.1; done"});
    ASSERT_TRUE(job->printed(" of 0\n"));
    ASSERT_TRUE(job->printed(" of 1\n"));
    const std::string out = job->out();
    const std::size_t line = out.find("node0:1: pid ") + 13;
    pid = out.substr(line, out.find(' ', line) - line);
  }
  void expect_that_it_was_told_and_left_behind() {
    EXPECT_THAT(job->err(),
                HasSubstr(fmt::format("rank 1 (node0, pid {}) has not ended 3 s after SIGKILL", pid)));
    EXPECT_THAT(job->report()["evidence"].dump(), HasSubstr("has not ended 3 s after SIGKILL"));
    EXPECT_EQ(kill(std::stoi(pid), 0), 0) << "it is still held";
    group.thaw();
    EXPECT_TRUE(eventually([&] { return job->descendants().empty(); })) << "and then ends by the SIGKILL";
  }

  std::optional<LaunchRun> job;
  FrozenGroup group;  // its destructor thaws the group before the test waits for the job's processes
  std::string pid;
  TimePoint frozen;
};

TEST_F(LaunchFrozen, IsToldAndNotWaitedForWhenTheUserStopsTheJob) {
  job->signal(SIGINT);
  EXPECT_EQ(job->exit_code(), 130);
  EXPECT_LT(Clock::now() - frozen, 1s + 5s + 20s)
      << "the grace, what is left for those who obey, and what a slow machine takes";
  expect_that_it_was_told_and_left_behind();
}

TEST_F(LaunchFrozen, EndsAJobThatNobodyStops) {
  EXPECT_EQ(job->exit_code(), 124);
  EXPECT_LT(Clock::now() - frozen, 4s + 2s + 1s + 5s + 20s)
      << "until it is noticed, for stacks, and as above";
  EXPECT_THAT(job->err(), HasSubstr("rank 1 (node0) is frozen (by the freezer of its cgroup)"));
  EXPECT_THAT(job->err(), ContainsRegex("failed after .*: rank 1 \\(node0\\) hangs: it is frozen"));
  expect_that_it_was_told_and_left_behind();
}

// The same two workers in version 2, whether or not version 1 is mounted too.
class LaunchFrozenInVersionTwo : public LaunchFrozen {
 protected:
  void SetUp() override {
    if (!unified.made()) GTEST_SKIP() << "cannot make a group in a hierarchy of version 2 here";
    begin();
    unified.write("cgroup.procs", pid);
  }
  void TearDown() override { unified.write("cgroup.freeze", "0"); }

  TestCgroup unified{unified_hierarchy().value_or("/nowhere")};
};

TEST_F(LaunchFrozenInVersionTwo, IsSeenAndKilled) {
  unified.write("cgroup.freeze", "1");
  EXPECT_EQ(job->exit_code(), 124);
  EXPECT_THAT(job->err(), HasSubstr("rank 1 (node0) is frozen (by the freezer of its cgroup)"));
  EXPECT_THAT(job->err(), ContainsRegex("failed after .*: rank 1 \\(node0\\) hangs: it is frozen"));
  EXPECT_THAT(job->err(), Not(HasSubstr("after SIGKILL")));
  EXPECT_TRUE(eventually([&] { return job->descendants().empty(); })) << "it is not left behind";
}

TEST_F(LaunchFrozenInVersionTwo, AGroupThatIsKilledIsTakenForWhatItIs) {
  unified.write("cgroup.kill", "1");
  EXPECT_EQ(job->exit_code(), 137);
  EXPECT_THAT(job->err(), HasSubstr("rank 1 (node0) was killed by SIGKILL"));
  EXPECT_EQ(job->report()["class"], "signal") << "memory did not run out";
}

}  // namespace
}  // namespace muster
