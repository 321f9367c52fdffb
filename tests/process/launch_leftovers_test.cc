// `launch` with processes of others, and with processes that cannot be killed.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/process/test_cgroup.h"

namespace muster {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using namespace std::chrono_literals;

// A process outside the job; the workers know its pid.
const std::string kStranger = "sleep 1000 & export STRANGER=$!; echo stranger $STRANGER; ";
// The agent is lost once; then the worker succeeds if that process lives.
const std::string kLoseTheAgent =
    " --max-restarts 1 sh -c '[ $MUSTER_ATTEMPT = 2 ] || { kill -9 $PPID; sleep 1000; }; kill -0 $STRANGER'";

pid_t stranger_of(const LaunchRun& run) {
  const std::string out = run.out();
  const std::size_t at = out.find("stranger ");
  return at == std::string::npos ? 0 : std::stoi(out.substr(at + 9));
}

TEST(LaunchLeftovers, LeavesWhatAShellHadStartedBeforeItAlone) {
  LaunchRun run({"-c", kStranger + "exec " LAUNCH_PROGRAM " true"}, {}, "/bin/sh");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_TRUE(is_running(stranger_of(run)));
  EXPECT_EQ(run.descendants().size(), 1U) << "nothing of its own is left";
}

TEST(LaunchLeftovers, LeavesItAloneWhenAnAgentIsLostToo) {
  LaunchRun run({"-c", kStranger + "exec " LAUNCH_PROGRAM + kLoseTheAgent}, {}, "/bin/sh");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(run.report()["restarts"], 1);
  EXPECT_TRUE(is_running(stranger_of(run)));
}

// Every orphan of the container becomes the launcher's child.
TEST(LaunchLeftovers, LeavesTheOthersOfAContainerAloneWhoseFirstProcessItIs) {
  if (system("unshare --pid --fork --mount-proc true 2>/dev/null") != 0)
    GTEST_SKIP() << "cannot make a pid namespace here";
  const std::string orphan = "(sleep 1000 & echo $! > $0.pid); STRANGER=$(cat $0.pid); export STRANGER; ";
  ScratchDirectory scratch;
  LaunchRun run({"--pid", "--fork", "--mount-proc", "sh", "-c",
                 orphan + "exec " LAUNCH_PROGRAM + kLoseTheAgent, scratch / "orphan"},
                {}, "/usr/bin/unshare");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(run.report()["restarts"], 1);
}

// The leftover has a session of its own, and the agent and its guardian, which could end it, are gone.
TEST(LaunchLeftovers, KillsWhatAnAgentAndItsGuardianLeave) {
  LaunchRun run({"--max-restarts", "0", "sh", "-c",
                 "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo left $!; sleep 1000"});
  ASSERT_TRUE(run.printed("left "));
  const pid_t left = std::stoi(run.out().substr(run.out().find("left ") + 5));
  const pid_t agent = run.agent_of(0);
  ASSERT_NE(agent, 0);
  for (const pid_t pid : run.descendants()) {
    if (pid != agent && read_file(fmt::format("/proc/{}/comm", pid), 64).value_or("") == "muster-guardian\n")
      kill(pid, SIGKILL);
  }
  kill(agent, SIGKILL);
  EXPECT_EQ(run.exit_code(), 69) << run.err();
  EXPECT_FALSE(is_running(left));
}

// An ordinary user's rank leaves two processes of root, as `sudo -b` does. The one that looks like a resource
// tracker is named too when its second is over.
TEST(LaunchLeftovers, ARankThatLeavesAnotherUsersProcessEndsWithZeroAndItIsNamed) {
  ScratchDirectory scratch;
  const std::string helper = scratch / "as_root";
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a set-user-ID program";
  std::filesystem::copy_file("/usr/bin/setpriv", helper);
  chmod(helper.c_str(), 04755);
  chmod(scratch.path().c_str(), 0777);
  const std::vector<std::string> user = {"--reuid", "65534", "--regid", "65534", "--clear-groups"};
  const auto as_user = [&](std::vector<std::string> words) {
    words.insert(words.begin(), user.begin(), user.end());
    return words;
  };
  LaunchRun probe(as_user({"sh", "-c", helper + " --reuid 0 id -ru; exec " LAUNCH_PROGRAM " --version"}), {},
                  "/usr/bin/setpriv");
  if (probe.exit_code() != 0 || !probe.out().starts_with("0\n"))
    GTEST_SKIP() << "another user cannot run a set-user-ID program here: " << probe.err();
  LaunchRun run(
      as_user(
          {LAUNCH_PROGRAM, "--log-dir", scratch / "logs", "--grace", "1", "--max-restarts", "0", "sh", "-c",
           "leave() { " + helper +
               " --reuid 0 $1 $2 $3 \"$4\" </dev/null >/dev/null 2>&1 & until grep -q $1 /proc/$!/comm; do :; done; }; "
               "leave tail -f /dev/null 'resource_tracker import main'; leave sleep 1000 0 0 0; echo left $!"}),
      {}, "/usr/bin/setpriv");
  ASSERT_TRUE(run.printed("left "));
  const TimePoint ended = Clock::now();
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_LT(Clock::now() - ended, 1s + 5s + 20s) << "the grace, five seconds, and what a slow machine takes";
  EXPECT_THAT(run.err(), ContainsRegex("process [0-9]+ \\(sleep, uid 0\\) cannot be killed: "
                                       "Operation not permitted \\(errno 1\\); left behind"));
  EXPECT_THAT(run.err(), ContainsRegex("process [0-9]+ \\(tail, uid 0\\) cannot be killed"));
}

// The tracker is still starting when its rank is killed.
TEST(LaunchLeftovers, PythonsResourceTrackerRemovesTheSharedMemoryOfAKilledRank) {
  const std::string name = fmt::format("muster_test_{}", getpid());
  const std::string script =
      "import os\n"
      "from multiprocessing.shared_memory import SharedMemory\n"
      "SharedMemory('" +
      name +
      "_' + os.environ['MUSTER_ATTEMPT'], True, 4096)\n"
      "os.kill(os.getpid(), 9)";
  LaunchRun run({"--max-restarts", "1", "--restart-delay", "0", "--", "python3", "-c", script});
  EXPECT_EQ(run.exit_code(), 137) << run.err();
  EXPECT_EQ(run.report()["restarts"], 1);
  for (const char* attempt : {"_1", "_2"}) {
    const std::string file = "/dev/shm/" + name + attempt;
    EXPECT_FALSE(std::filesystem::remove(file)) << file << " was left";
  }
  expect_nothing_left(run, 0s);
}

TEST(LaunchLeftovers, AResourceTrackerThatDoesNotEndIsKilledInTheNextAttempt) {
  ScratchDirectory scratch;
  const std::string script =
      "if [ $MUSTER_ATTEMPT = 1 ]; then tail -f /dev/null 'resource_tracker import main' >/dev/null 2>&1 & echo $! >pid; exit 3; fi; "
      "read pid <pid; kill -0 $pid && echo spared; "
      "for i in $(seq 1000); do kill -0 $pid 2>/dev/null || exit 0; sleep 0.02; done; exit 4";
  LaunchRun run({"--max-restarts", "1", "--restart-delay", "0", "--", "sh", "-c",
                 "cd " + scratch.path().string() + "; " + script});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("spared"));
  expect_nothing_left(run, 0s);
}

// SIGKILL takes effect only when a frozen group of version 1 thaws.
TEST(LaunchLeftovers, ARankThatLeavesAFrozenProcessEndsWithZeroAndItIsNamed) {
  ScratchDirectory scratch;
  std::optional<TestCgroup> group("/sys/fs/cgroup/freezer");
  if (!group->made()) GTEST_SKIP() << "cannot make a group in a freezer hierarchy of version 1 here";
  LaunchRun run({"--grace", "1", "--max-restarts", "0", "sh", "-c",
                 "sleep 1000 & until grep -q sleep /proc/$!/comm; do :; done; echo left $!; until [ -e " +
                     (scratch / "go") + " ]; do sleep 0.05; done"});
  ASSERT_TRUE(run.printed("left "));
  const std::string pid = std::to_string(std::stoi(run.out().substr(run.out().find("left ") + 5)));
  group->write("cgroup.procs", pid);
  group->write("freezer.state", "FROZEN");
  std::ofstream(scratch / "go").put('x');
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.err(),
              HasSubstr(fmt::format("process {} (sleep, uid {}) is still alive after SIGKILL (errno 0)", pid,
                                    geteuid())));
  EXPECT_EQ(kill(std::stoi(pid), 0), 0) << "it is still held";
  group->write("freezer.state", "THAWED");
  EXPECT_TRUE(eventually([&] { return run.descendants().empty(); })) << "and then ends by the SIGKILL";
}

}  // namespace
}  // namespace muster
