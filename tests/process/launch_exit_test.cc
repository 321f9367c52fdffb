// The real launcher, agents and workers: exit codes, signals, and that nothing of a job outlives it.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/file.h"
#include "tests/invariants.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"

namespace muster {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> operator+(std::vector<std::string> left, const std::vector<std::string>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// Both kinds of connections: an inherited socket, and TLS.
class Launch : public testing::TestWithParam<const char*> {
 protected:
  std::vector<std::string> shell(const std::string& script, std::vector<std::string> flags = {}) const {
    return std::vector<std::string>{"--control", GetParam(), "--silence-limit", "20"} + flags +
           std::vector<std::string>{"sh", "-c", script};
  }
};

const std::vector<std::string> kTwoByTwo = {"--nodes", "2", "--gpus-per-node", "2"};
const std::vector<std::string> kNoRestart = {"--max-restarts", "0"};
// Leaves an orphan that has a session of its own and ignores TERM.
constexpr const char* kDaemon =
    "(setsid sh -c 'trap \"\" TERM; exec sleep 1000' </dev/null >/dev/null 2>&1 &) ; ";

TEST_P(Launch, EndsWithZeroWhenEveryRankDoes) {
  LaunchRun run(shell("echo hello from $RANK of $WORLD_SIZE", kTwoByTwo));
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  for (const char* line : {"node0:0: hello from 0 of 4\n", "node0:1: hello from 1 of 4\n",
                           "node1:2: hello from 2 of 4\n", "node1:3: hello from 3 of 4\n"}) {
    EXPECT_THAT(run.out(), HasSubstr(line));
  }
  EXPECT_THAT(run.err(), HasSubstr("4 ranks succeeded"));
  EXPECT_THAT(read_file(run.job_directory() + "/launcher.log", 1 << 20).value_or(""),
              Not(HasSubstr("did not finish in time")))
      << "agents leave at once";
  expect_nothing_left(run);
}

// Like a program that returns from main(): its connections close before it ends.
TEST_P(Launch, NamesTheRankThatEndsAfterItsPeerHasMissedIt) {
  ScratchDirectory scratch;
  const std::string script =
      "cd " + scratch.path().string() +
      "; if [ $RANK = 0 ]; then echo $$ > new; mv new pid; echo Connection closed by peer >&2; exit 1; fi; "
      "until [ -e pid ]; do :; done; while kill -0 $(cat pid) 2>/dev/null; do :; done; exit 3";
  LaunchRun run(shell(script, {"--gpus-per-node", "2", "--max-restarts", "0"}));
  EXPECT_EQ(run.exit_code(), 3) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("rank 1 (node0) exited with code 3"));
}

TEST_P(Launch, NamesTheRankThatLeftEarlyWithZeroAndNotWhoMissesIt) {
  ScratchDirectory scratch;
  const std::string script =
      "cd " + scratch.path().string() +
      "; if [ $RANK = 1 ]; then echo $$ > new; mv new pid; exit 0; fi; until [ -e pid ]; do :; done; "
      "while kill -0 $(cat pid) 2>/dev/null; do :; done; echo Connection closed by peer >&2; exit 3";
  LaunchRun run(shell(script, {"--gpus-per-node", "2", "--max-restarts", "0"}));
  EXPECT_EQ(run.exit_code(), 1) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("rank 1 exited with code 0 while the others still trained\n"));
  EXPECT_THAT(run.err(), HasSubstr("rank 0 (node0) missed it first, and exited with code 3"));
  EXPECT_THAT(run.err(), HasSubstr("exit code   1 (the worker's own, 0, would mean success)"));
  EXPECT_EQ(run.report()["culprit"]["rank"], 1);
}

TEST_P(Launch, NamesTheRankThatFailedFirst) {
  const int rounds = std::string(GetParam()) == "socket" ? 20 : 3;
  for (int round = 0; round < rounds; ++round) {
    LaunchRun run(
        shell("if [ $RANK = 2 ]; then echo reason >&2; exit 3; fi; sleep 1000", kTwoByTwo + kNoRestart));
    EXPECT_EQ(run.exit_code(), 3) << run.err();
    EXPECT_THAT(run.err(), HasSubstr("rank 2 (node1) exited with code 3"));
    EXPECT_THAT(run.err(), HasSubstr("  last lines  | reason\n"));
    invariants::blames({.rank = run.report()["culprit"]["rank"].get<int>(),
                        .node = run.report()["culprit"]["node"].get<int>()},
                       {.rank = 2, .node = 1});
    expect_nothing_left(run);
  }
}

TEST_P(Launch, EndsWith128AndTheSignalThatKilledAWorker) {
  LaunchRun run(shell("if [ $RANK = 1 ]; then kill -9 $$; fi; sleep 1000", kTwoByTwo + kNoRestart));
  EXPECT_EQ(run.exit_code(), 137);
  EXPECT_THAT(run.err(), HasSubstr("rank 1 (node0) was killed by SIGKILL"));
  EXPECT_EQ(run.report()["culprit"]["signal"], 9);
}

TEST_P(Launch, StopsTheWorkersWhenTheUserInterrupts) {
  LaunchRun run(
      shell(std::string(kDaemon) + "trap 'echo got it; exit 0' INT; echo ready; while :; do sleep 0.02; done",
            kTwoByTwo));
  for (const char* rank : {"node0:0: ready", "node0:1: ready", "node1:2: ready", "node1:3: ready"})
    ASSERT_TRUE(run.printed(rank)) << run.err();
  run.signal(SIGINT);
  EXPECT_EQ(run.exit_code(), 130);
  EXPECT_THAT(run.out(), HasSubstr("node1:3: got it"));
  EXPECT_EQ(run.report()["exit_code"], 130);
  EXPECT_EQ(run.report()["origin"], "user");
  expect_nothing_left(run, std::chrono::seconds(0));
}

TEST_P(Launch, CtrlCIsAKeyboardInterruptForEachRank) {
  LaunchRun run({"--control", GetParam(), "--gpus-per-node", "2", "--", "python3", "-c",
                 "import time\n"
                 "try:\n  print('ready', flush=True)\n  time.sleep(1000)\n"
                 "except KeyboardInterrupt:\n  time.sleep(0.5)\n  print('saved', flush=True)"});
  for (const char* rank : {"node0:0: ready", "node0:1: ready"}) ASSERT_TRUE(run.printed(rank)) << run.err();
  run.signal(SIGINT);
  EXPECT_EQ(run.exit_code(), 130);
  EXPECT_THAT(run.out(), testing::AllOf(HasSubstr("node0:0: saved"), HasSubstr("node0:1: saved")));
}

TEST_P(Launch, ARankThatSavesForMoreThanFourFifthsOfTheGraceGetsTermAfterTheInterrupt) {
  LaunchRun run({"--control", GetParam(), "--grace", "1", "--", "python3", "-c",
                 "import os, signal, time\n"
                 "def save(*_):\n  print('saving', flush=True)\n  time.sleep(1000)\n"
                 "def cut_off(*_):\n  print('cut off', flush=True)\n  os._exit(0)\n"
                 "signal.signal(signal.SIGINT, save)\n"
                 "signal.signal(signal.SIGTERM, cut_off)\n"
                 "print('ready', flush=True)\ntime.sleep(1000)"});
  ASSERT_TRUE(run.printed("ready")) << run.err();
  run.signal(SIGINT);
  EXPECT_EQ(run.exit_code(), 130);
  EXPECT_THAT(run.out(), testing::ContainsRegex("saving\n(.|\n)*cut off"));
}

TEST_P(Launch, KillsAtOnceWhenTheUserInterruptsTwice) {
  LaunchRun run(shell("trap '' TERM; echo ready; while :; do sleep 0.02; done",
                      {"--gpus-per-node", "2", "--grace", "1000"}));
  ASSERT_TRUE(run.printed("node0:0: ready"));
  ASSERT_TRUE(run.printed("node0:1: ready"));
  run.signal(SIGTERM);
  run.signal(SIGTERM);
  // Two signals sent at once may arrive as one.
  ASSERT_TRUE(eventually([&] {
    run.signal(SIGTERM);
    return run.descendants().empty();
  }));
  EXPECT_EQ(run.exit_code(), 143);
  expect_nothing_left(run, std::chrono::seconds(0));
}

TEST_P(Launch, ReplacesAnAgentThatIsKilled) {
  LaunchRun run(
      shell(std::string(kDaemon) +
                "echo attempt $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || sleep 1000",
            kTwoByTwo + std::vector<std::string>{"--max-restarts", "1"}));
  ASSERT_TRUE(run.printed("node1:3: attempt 0"));
  ASSERT_TRUE(run.printed("node0:0: attempt 0"));
  // A process that an agent has just forked has the agent's name for a moment.
  ASSERT_TRUE(eventually([&run] { return run.agents().size() == 2; }));
  kill(run.agents()[1], SIGKILL);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("was lost: its agent was killed by SIGKILL; attempt 2 begins"));
  EXPECT_THAT(run.out(), HasSubstr("node1:3: attempt 1"));
  expect_nothing_left(run);
}

TEST_P(Launch, EndsWith69WhenNoRestartIsLeftForALostAgent) {
  LaunchRun run(shell(std::string(kDaemon) + "echo ready; sleep 1000", kTwoByTwo + kNoRestart));
  for (const char* rank : {"node0:0: ready", "node0:1: ready", "node1:2: ready", "node1:3: ready"})
    ASSERT_TRUE(run.printed(rank));
  kill(run.agents().at(0), SIGKILL);
  EXPECT_EQ(run.exit_code(), 69);
  EXPECT_EQ(run.report()["origin"], "launcher");
  expect_nothing_left(run);
}

TEST_P(Launch, KillsAndReplacesAnAgentThatHangs) {
  LaunchRun run(
      {"--control", GetParam(), "--silence-limit", "2", "--nodes", "2", "--max-restarts", "1", "sh", "-c",
       "echo attempt $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || sleep 1000"});
  ASSERT_TRUE(run.printed("node0:0: attempt 0"));
  ASSERT_TRUE(run.printed("node1:1: attempt 0"));
  kill(run.agents().at(0), SIGSTOP);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("its agent was silent for 2 s"));
  expect_nothing_left(run);
}

TEST_P(Launch, LeavesNothingBehindWhenItIsKilled) {
  LaunchRun run(shell(std::string(kDaemon) + "trap '' TERM; echo ready; while :; do sleep 0.02; done",
                      kTwoByTwo + std::vector<std::string>{"--controller-grace", "2", "--grace", "1"}));
  for (const char* rank : {"node0:0: ready", "node0:1: ready", "node1:2: ready", "node1:3: ready"})
    ASSERT_TRUE(run.printed(rank));
  run.signal(SIGKILL);
  EXPECT_EQ(run.exit_code(), 137);
  EXPECT_FALSE(run.descendants().empty()) << "workers outlive their launcher for the controller grace";
  expect_nothing_left(run, std::chrono::seconds(2 + 1 + 5));
}

char state_of(pid_t pid) {
  const auto stat = read_file(fmt::format("/proc/{}/stat", pid), 4096).value_or(")  ");
  return stat[stat.rfind(')') + 2];
}

TEST_P(Launch, HearsTheLastWordsOfAnAgentThatIsKilled) {
  ScratchDirectory scratch;
  const std::string go = scratch / "go";
  LaunchRun run(shell("echo $$ >" + scratch.path().string() + "/pid; echo ready; while ! [ -e " + go +
                          " ]; do sleep 0.02; done; i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo " +
                          std::string(1000, 'x') + "; done; exit 3",
                      kNoRestart));
  ASSERT_TRUE(run.printed("node0:0: ready"));
  const pid_t agent = run.agents().at(0);
  const pid_t worker = std::stoi(read_file(scratch / "pid", 32).value_or("0"));
  // The launcher gets everything at once, and the output is longer than one read.
  run.signal(SIGSTOP);
  std::ofstream(go) << "";
  ASSERT_TRUE(eventually([&] { return !std::filesystem::exists(fmt::format("/proc/{}", worker)); }));
  ASSERT_TRUE(eventually([&] { return state_of(agent) == 'S'; })) << "it has told of the worker's end";
  kill(agent, SIGKILL);
  ASSERT_TRUE(eventually([&] { return state_of(agent) == 'Z'; }));
  run.signal(SIGCONT);
  EXPECT_EQ(run.exit_code(), 3) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("rank 0 (node0) exited with code 3"));
  expect_nothing_left(run);
}

// A shell without job control ignores SIGINT and SIGQUIT for what it starts with `&`.
TEST(LaunchInTheBackground, IsStoppedBySignalsThatAScriptIgnoresForIt) {
  for (const auto& [name, code] : {std::pair("INT", 130), std::pair("QUIT", 131)}) {
    const ScratchDirectory scratch;
    LaunchRun script({"-c",
                      "cd $2; \"$0\" sh -c 'grep SigIgn /proc/$$/status; touch ready; exec sleep 1000' &"
                      " until test -e ready; do sleep 0.05; done; kill -$1 $!; wait $!",
                      LAUNCH_PROGRAM, name, scratch.path()},
                     {}, "/bin/sh");
    EXPECT_EQ(script.exit_code(), code) << script.err();
    EXPECT_THAT(script.err(), HasSubstr(fmt::format("by SIG{}", name)));
    // The bits of SIGINT and SIGQUIT are 2 and 4.
    EXPECT_THAT(script.out(), ContainsRegex("SigIgn:\t[0-9a-f]{15}[0189]\n")) << "nor do workers ignore them";
    expect_nothing_left(script);
  }
}

INSTANTIATE_TEST_SUITE_P(Control, Launch, testing::Values("socket", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST(LaunchVerdict, ReportsACodeThatIsTheLaunchersOwnAsOne) {
  LaunchRun run({"--max-restarts", "0", "sh", "-c", "exit 75"});
  EXPECT_EQ(run.exit_code(), 1);
  EXPECT_THAT(run.err(), HasSubstr("rank 0 (node0) exited with code 75"));
  EXPECT_EQ(run.report()["culprit"]["exit_code"], 75);
  EXPECT_EQ(run.report()["origin"], "worker");
}

TEST(LaunchVerdict, NamesTheExceptionOfAScriptThatOnlyPrintedItsTraceback) {
  LaunchRun run({"--max-restarts", "2", "--no-progress-limit", "0", "--restart-delay", "0.1", "sh", "-c",
                 "echo 'Traceback (most recent call last):' >&2;"
                 "echo '  File \"/home/me/train.py\", line 6, in <module>' >&2;"
                 "echo '    raise RuntimeError(\"bad sample 17\")' >&2;"
                 "echo 'RuntimeError: bad sample 17' >&2; exit 1"});
  EXPECT_EQ(run.exit_code(), 1);
  const std::string cause = "rank 0 (node0) failed with RuntimeError: bad sample 17 (train.py:6)";
  EXPECT_THAT(run.err(), HasSubstr("launch: " + cause + "; retrying in 0.1 s"));
  EXPECT_EQ(run.report().at("cause"), cause);
  EXPECT_EQ(run.report().at("culprit").at("exception"), "RuntimeError: bad sample 17 (train.py:6)");
}

TEST(LaunchVerdict, CountsRestartsForTheWorkersAndForTheReport) {
  LaunchRun run({"--max-restarts", "2", "--gpus-per-node", "2", "sh", "-c",
                 "echo count $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0; "
                 "[ $RANK = 0 ] && exit 1; sleep 1000"});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  for (const char* line : {"node0:0: count 0\n", "node0:0: count 1\n", "node0:1: count 2\n"})
    EXPECT_THAT(run.out(), HasSubstr(line));
  EXPECT_EQ(run.report()["restarts"], 2);
  EXPECT_EQ(run.report()["attempts"].size(), 3U);
  EXPECT_TRUE(std::filesystem::exists(run.job_directory() + "/attempt_3/rank_1/stdout.log"));
}

TEST(LaunchVerdict, TakesAttemptsFromTheCheckpointDirectory) {
  ScratchDirectory checkpoints;
  for (int launch = 1; launch <= 2; ++launch) {
    LaunchRun run({"--checkpoint-dir", checkpoints.path().string(), "sh", "-c",
                   "echo $MUSTER_ATTEMPT in $MUSTER_CHECKPOINT_DIR"});
    EXPECT_EQ(run.exit_code(), 0) << run.err();
    EXPECT_THAT(run.out(), HasSubstr(fmt::format("{} in {}", launch, checkpoints.path().string())));
  }
}

TEST(LaunchVerdict, DoesNotRestartWhenANewerLaunchHasItsCheckpointDirectory) {
  ScratchDirectory checkpoints;
  const std::string go = checkpoints / "go";
  LaunchRun older({"--checkpoint-dir", checkpoints / "c", "sh", "-c",
                   "echo ready; while ! [ -e " + go + " ]; do sleep 0.02; done; exit 1"});
  ASSERT_TRUE(older.printed("ready"));
  LaunchRun newer({"--take-over", "--checkpoint-dir", checkpoints / "c", "true"});
  EXPECT_EQ(newer.exit_code(), 0) << newer.err();
  EXPECT_THAT(newer.err(),
              HasSubstr(fmt::format("(process {}), which is running and will stop\n", older.pid())));
  std::ofstream(go) << "";
  EXPECT_EQ(older.exit_code(), 125);
  EXPECT_THAT(older.err(), HasSubstr("has taken over"));
  EXPECT_EQ(older.report()["restarts"], 1);
}

TEST(LaunchVerdict, LeavesACheckpointDirectoryToTheLaunchThatUsesIt) {
  ScratchDirectory checkpoints;
  const std::string go = checkpoints / "go";
  LaunchRun older({"--checkpoint-dir", checkpoints / "c", "sh", "-c",
                   "echo ready; while ! [ -e " + go + " ]; do sleep 0.02; done"});
  ASSERT_TRUE(older.printed("ready"));
  const std::string id = std::filesystem::path(older.job_directory()).filename();
  const std::string who = fmt::format("job {} (process {})", id, older.pid());
  LaunchRun newer({"--checkpoint-dir", checkpoints / "c", "true"});
  EXPECT_EQ(newer.exit_code(), 2);
  EXPECT_THAT(newer.err(),
              HasSubstr(fmt::format("launch: --checkpoint-dir: {} is in use by {}, which is running: stop",
                                    checkpoints / "c", who)));
  EXPECT_EQ(newer.job_directory(), "") << "nothing was made";
  LaunchRun check({"check", "--checkpoint-dir", checkpoints / "c", "true"});
  EXPECT_EQ(check.exit_code(), 1);
  EXPECT_THAT(check.out(), HasSubstr("FAIL  checkpoint use"));
  EXPECT_THAT(check.out(), HasSubstr(who));
  std::ofstream(go) << "";
  EXPECT_EQ(older.exit_code(), 0) << older.err();
  LaunchRun next({"--checkpoint-dir", checkpoints / "c", "true"});
  EXPECT_EQ(next.exit_code(), 0);
  EXPECT_THAT(next.err(), HasSubstr(fmt::format("launch: {} was last used by {}, which has ended\n",
                                                checkpoints / "c", who)));
}

TEST(LaunchVerdict, SaysWhoseCheckpointDirectoryItTakesOverWhereItCannotKnow) {
  ScratchDirectory checkpoints;
  std::filesystem::create_directory(checkpoints / "attempts");
  std::ofstream(checkpoints / "attempts/000001.json")
      << R"({"format":1,"attempt":1,"job":"far-1","host":"elsewhere","resume":null})";
  LaunchRun run({"--checkpoint-dir", checkpoints.path(), "true"});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(
      run.err(),
      HasSubstr("is taken over from job far-1 on host elsewhere: if that job still runs, it will stop\n"));
}

// A fake agent: executes `deed` with the descriptor `fd` of its connection, and hangs.
std::string launch_with_agent_that(const ScratchDirectory& scratch, const std::string& deed) {
  std::ofstream(scratch / "muster-agent")
      << "#!/usr/bin/env python3\nimport os, signal, sys\nfd = int(sys.argv[2])\n"
      << deed << "\nsignal.pause()\n";
  std::filesystem::permissions(scratch / "muster-agent", std::filesystem::perms(0755));
  std::filesystem::copy_file(LAUNCH_PROGRAM, scratch / "launch");
  return scratch / "launch";
}

TEST(LaunchVerdict, SaysWhyItKilledAnAgent) {
  struct Case {
    const char* deed;
    const char* cause;
    int exit_code;
  };
  const Case cases[] = {
      {"os.write(fd, b'x' * 1000)", "node0: its agent sent an unreadable frame: ", 125},
      {"os.close(fd)", "node0 was lost: its agent closed its connection", 69},
      {"os.kill(os.getpid(), signal.SIGKILL)", "node0 was lost: its agent was killed by SIGKILL", 69}};
  for (const auto& [deed, cause, exit_code] : cases) {
    ScratchDirectory scratch;
    LaunchRun run({"--max-restarts", "0", "true"}, {}, launch_with_agent_that(scratch, deed));
    EXPECT_EQ(run.exit_code(), exit_code);
    EXPECT_THAT(run.err(), HasSubstr(cause));
    expect_nothing_left(run);
  }
}

TEST(LaunchWithoutItsPlace, CannotRestartAndNamesTheCulpritAllTheSame) {
  ScratchDirectory scratch;
  LaunchRun run({"--checkpoint-dir", scratch / "c", "--max-restarts", "1", "sh", "-c",
                 "rm -r $MUSTER_CHECKPOINT_DIR; touch $MUSTER_CHECKPOINT_DIR; echo reason >&2; exit 3"});
  EXPECT_EQ(run.exit_code(), 125) << run.err();
  EXPECT_THAT(run.err(), HasSubstr(", after rank 0 (node0) exited with code 3"));
  EXPECT_THAT(run.err(), HasSubstr("  last lines  | reason\n"));
  expect_nothing_left(run);
}

// The node could begin the first attempt, so the launcher takes it as lost: another node may be able to go
// on.
TEST(LaunchWithoutItsPlace, ANodeThatCannotKeepLogsOfARestartIsLost) {
  ScratchDirectory scratch;
  LaunchRun run({"--env", "LOGS=" + scratch.path().string(), "--log-dir", scratch / "logs", "--max-restarts",
                 "1", "sh", "-c", "for job in $LOGS/logs/*; do touch $job/attempt_2; done; exit 3"});
  EXPECT_EQ(run.exit_code(), 69) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("rank 0 (node0) exited with code 3; attempt 2"));
  EXPECT_THAT(run.err(), HasSubstr("node0 was lost: it refused the attempt: cannot keep logs"));
  expect_nothing_left(run);
}

constexpr int kCannotBeThatUser = 98;

// Runs as a user without other processes, with this limit on processes and threads.
pid_t start_as_user_with(const std::filesystem::path& directory, rlim_t process_count) {
  std::filesystem::permissions(directory, std::filesystem::perms::all);
  const auto user = static_cast<uid_t>(470'000 + getpid() % 1000);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const rlimit limit{process_count, process_count};
  if (chdir("/") != 0 || setrlimit(RLIMIT_NPROC, &limit) != 0 || setgroups(0, nullptr) != 0 ||
      setgid(user) != 0 || setuid(user) != 0)
    _exit(kCannotBeThatUser);
  return 0;
}

// Validates its connection to the store, pings it, and reports a step and a commit.
constexpr const char* kMeetsAndReports = R"PY(
import os, socket, struct, muster
store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
store.sendall(struct.pack("<BIBI", 0, 0x3C85F7CE, 13, 7))
assert store.recv(4) == struct.pack("<I", 7)
muster.step(5)
muster.committed(5)
print("met as", os.getuid(), flush=True)
)PY";

TEST(LaunchAsRoot, RanksThatChangeTheirUserMeetAndTheirReportsCount) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  if (std::system("setpriv --reuid 65534 true 2>/dev/null") != 0) GTEST_SKIP() << "there is no such user";
  LaunchRun run({"--nodes", "2", "--max-restarts", "0", "--", "setpriv", "--reuid", "65534", "--regid",
                 "65534", "--clear-groups", "python3", "-c", kMeetsAndReports},
                {{"PATH", "/usr/bin:/bin"}});  // no folder of root's
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(),
              testing::AllOf(HasSubstr("node0:0: met as 65534"), HasSubstr("node1:1: met as 65534")));
  EXPECT_EQ(run.report()["attempts"][0]["committed_step"], 5);
}

// At the smallest limits the launcher's thread fails; then agents, guardians, agents' threads, and workers.
TEST(LaunchWithoutItsPlace, NamesTheLimitOnProcessesThatItHasReached) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  ScratchDirectory scratch;  // a copy of the programs for that user
  std::filesystem::permissions(scratch.path(), std::filesystem::perms(0755));
  std::filesystem::copy(LAUNCH_PROGRAM, scratch / "launch");
  std::filesystem::copy(AGENT_PROGRAM, scratch / "muster-agent");
  // With ten, the last rank may start because an earlier rank has ended.
  for (const rlim_t count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 64}) {
    SCOPED_TRACE(fmt::format("{} processes and threads", count));
    LaunchRun run({"--nodes", "2", "--gpus-per-node", "2", "--max-restarts", "0", "sh", "-c", "exit 0"},
                  {{"ASAN_OPTIONS", "detect_leaks=0"}},  // leak detection needs a process
                  scratch / "launch",
                  [&](const std::string& directory) { return start_as_user_with(directory, count); });
    if (run.exit_code() == kCannotBeThatUser) GTEST_SKIP() << "this container has no such user";
    EXPECT_EQ(run.exit_code(), count == 64 ? 0 : 125) << run.err();
    if (count < 64)
      EXPECT_THAT(run.err(), HasSubstr(fmt::format("(RLIMIT_NPROC (ulimit -u) is {}, with ", count)));
    expect_nothing_left(run);
  }
}

}  // namespace
}  // namespace muster
