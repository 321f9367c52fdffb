// `launch` with processes of others, and with processes that cannot be killed.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
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

// The launcher of this job is killed, and its ranks run on. Each has written its pid.
class LaunchAfterAKilledOne : public testing::Test {
 protected:
  // Each of the two ranks executes `first`, writes its pid and that of its child, and executes `then`.
  std::unique_ptr<LaunchRun> killed_launch(const std::string& first,
                                           const std::string& then = "exec sleep 1000") {
    std::filesystem::permissions(scratch.path(), std::filesystem::perms(0755));
    auto run = std::make_unique<LaunchRun>(
        std::vector<std::string>{"--gpus-per-node", "2", "--grace", "1", "--checkpoint-dir", checkpoints,
                                 "sh", "-c", first + " echo $$ $! >>" + pids + "; " + then});
    EXPECT_TRUE(eventually([&] {
      const std::string text = read_file(pids, 100).value_or("");
      return std::ranges::count(text, '\n') == 2;
    })) << run->err();
    who = fmt::format("job {} (process {})", std::filesystem::path(run->job_directory()).filename().string(),
                      run->pid());
    run->signal(SIGKILL);
    run->exit_code();
    return run;
  }
  // Each of its ranks names the ranks of the killed launch that still run.
  std::vector<std::string> next_launch() const {
    return {"--checkpoint-dir", checkpoints, "sh", "-c",
            "for pid in $(cat " + pids +
                "); do grep -qs . /proc/$pid/cmdline && echo alive $pid; done; echo began"};
  }
  void expect_begins(LaunchRun& next) const {
    EXPECT_EQ(next.exit_code(), 0) << next.err();
    EXPECT_THAT(next.out(), HasSubstr("began"));
    EXPECT_THAT(next.out(), testing::Not(HasSubstr("alive")));
  }

  ScratchDirectory scratch;
  const std::string checkpoints = scratch / "c";
  const std::string pids = scratch / "pids";
  std::string who;
};

TEST_F(LaunchAfterAKilledOne, EndsItsRanksBeforeItsOwnBegin) {
  const auto killed = killed_launch("");
  const std::string line = fmt::format(
      "{} was last used by {}, whose launcher is gone; launch first ends 2 processes of that job on this machine",
      checkpoints, who);
  LaunchRun check({"check", "--checkpoint-dir", checkpoints, "true"});
  EXPECT_EQ(check.exit_code(), 0);
  EXPECT_THAT(check.out(), HasSubstr("WARN  checkpoint use"));
  EXPECT_THAT(check.out(), HasSubstr(line));
  EXPECT_EQ(killed->agents().size(), 1U) << "the check has ended nothing";
  LaunchRun next(next_launch());
  expect_begins(next);
  EXPECT_THAT(next.err(), HasSubstr("launch: " + line + "\n"));
  EXPECT_TRUE(eventually([&] { return killed->descendants().empty(); })) << "its agent, too";
  LaunchRun third(next_launch());
  expect_begins(third);
  EXPECT_THAT(third.err(), HasSubstr(", which has ended\n"));
}

// The first rank saves on TERM; the second ignores TERM.
TEST_F(LaunchAfterAKilledOne, GivesItsRanksTheirGrace) {
  const std::string saved = scratch / "saved";
  const auto killed =
      killed_launch("[ $RANK = 1 ] && trap '' TERM || trap 'echo x >" + saved + "; exit 0' TERM;",
                    "while :; do sleep 0.02; done");
  LaunchRun next(next_launch());
  expect_begins(next);
  EXPECT_TRUE(std::filesystem::exists(saved));
}

// Ranks end with their agent. Their children stay if the guardian is gone, too.
TEST_F(LaunchAfterAKilledOne, EndsWhatTheAgentAndItsGuardianLeave) {
  const auto killed = killed_launch("setsid sleep 1000 </dev/null >/dev/null 2>&1 &");
  const pid_t agent = killed->agent_of(0);
  ASSERT_NE(agent, 0);
  for (const pid_t pid : killed->descendants()) {
    if (read_file(fmt::format("/proc/{}/comm", pid), 64).value_or("") == "muster-guardian\n")
      kill(pid, SIGKILL);
  }
  kill(agent, SIGKILL);
  ASSERT_TRUE(eventually([&] { return killed->descendants().size() == 2; }));
  LaunchRun next(next_launch());
  expect_begins(next);
}

TEST_F(LaunchAfterAKilledOne, LeavesTheRanksOfALivingLaunchAlone) {
  LaunchRun living({"--checkpoint-dir", scratch / "other", "sh", "-c", "echo ready; exec sleep 1000"});
  ASSERT_TRUE(living.printed("ready"));
  const std::string id = std::filesystem::path(living.job_directory()).filename();
  // The program of that job has named the directory itself: its rank 0, which is gone, was the owner.
  const auto killed = killed_launch("");
  const std::string file = checkpoints + "/attempts/000001.json";
  auto attempt = nlohmann::json::parse(read_file(file, 10000).value());
  attempt["job"] = id;
  std::filesystem::remove(file);
  std::ofstream(file) << attempt.dump();
  LaunchRun next({"--checkpoint-dir", checkpoints, "true"});
  EXPECT_EQ(next.exit_code(), 0) << next.err();
  EXPECT_THAT(next.err(), HasSubstr(fmt::format("job {}", id)));
  EXPECT_THAT(next.err(), HasSubstr(", which has ended\n"));
  living.signal(SIGINT);
  EXPECT_EQ(living.exit_code(), 130) << living.err();
}

TEST_F(LaunchAfterAKilledOne, DoesNotBeginWhereItMayNotEndItsRanks) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const auto killed = killed_launch("");
  const auto as_user = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--reuid", "65534", "--regid", "65534", "--clear-groups"});
    words.insert(words.end(), {LAUNCH_PROGRAM, "--checkpoint-dir", checkpoints, "true"});
    return words;
  };
  LaunchRun probe({"--reuid", "65534", LAUNCH_PROGRAM, "--version"}, {}, "/usr/bin/setpriv");
  if (probe.exit_code() != 0) GTEST_SKIP() << "there is no such user, or it cannot reach launch";
  LaunchRun other(as_user({}), {}, "/usr/bin/setpriv");
  EXPECT_EQ(other.exit_code(), 2);
  // Other tests may have left agents of root, too.
  EXPECT_THAT(
      other.err(),
      testing::ContainsRegex("whose launcher is gone; that user's agent \\(process [0-9]+\\) still runs: "));
  LaunchRun seeing(as_user({"--inh-caps", "+sys_ptrace,+dac_read_search", "--ambient-caps",
                            "+sys_ptrace,+dac_read_search"}),
                   {}, "/usr/bin/setpriv");
  EXPECT_EQ(seeing.exit_code(), 2);
  EXPECT_THAT(seeing.err(), HasSubstr("(sleep, uid 0) cannot be killed: Operation not permitted (errno 1)"));
  EXPECT_EQ(killed->agents().size(), 1U) << "nothing was ended";
}

}  // namespace
}  // namespace muster
