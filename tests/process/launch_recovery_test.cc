// The real launcher, agents and workers: recovery from failures, hangs, notices, and interrupts by the user.
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/file.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kSayAndWaitAtFirst =
    "echo attempt $MUSTER_ATTEMPT rank $RANK of $WORLD_SIZE group $GROUP_RANK; "
    "[ $MUSTER_ATTEMPT = 2 ] || exec sleep 1000";

TEST(LaunchRecovery, ASpareNodeTakesTheLostOnesPlace) {
  LaunchRun run(
      {"--nodes", "2", "--spare-nodes", "1", "--max-restarts", "1", "sh", "-c", kSayAndWaitAtFirst});
  ASSERT_TRUE(run.printed("node0:0: attempt 1"));
  ASSERT_TRUE(run.printed("node1:1: attempt 1"));
  ASSERT_TRUE(eventually([&] { return run.agent_of(2) != 0; }));
  kill(run.agent_of(0), SIGKILL);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("node1:0: attempt 2 rank 0 of 2 group 0"));
  EXPECT_THAT(run.out(), HasSubstr("attempt 2 rank 1 of 2 group 1"));
  EXPECT_EQ(run.report()["attempts"][0]["culprit"]["class"], "node_lost");
  expect_nothing_left(run);
}

TEST(LaunchRecovery, AnElasticJobGoesOnWithTheNodesThatLive) {
  LaunchRun run({"--nodes", "1:2", "--max-restarts", "1", "sh", "-c", kSayAndWaitAtFirst});
  ASSERT_TRUE(run.printed("node0:0: attempt 1"));
  ASSERT_TRUE(run.printed("node1:1: attempt 1"));
  kill(run.agent_of(0), SIGKILL);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("node1:0: attempt 2 rank 0 of 1 group 0"));
  EXPECT_THAT(run.err(), HasSubstr("with 1 rank on 1 node"));
  EXPECT_THAT(run.err(), HasSubstr("1 rank succeeded"));
  EXPECT_EQ(run.report()["attempts"][1]["world_size"], 1);
  expect_nothing_left(run);
}

TEST(LaunchRecovery, EndsWithTheCulpritsCodeWhenNothingIsGained) {
  LaunchRun run({"--max-restarts", "9", "--restart-delay", "0.05", "sh", "-c", "exit 3"});
  EXPECT_EQ(run.exit_code(), 3);
  EXPECT_THAT(run.err(), HasSubstr("2 of 9 restarts used; not retried: the same failure 3 times in a row"));
  EXPECT_EQ(run.report()["class"], "exit");
  EXPECT_EQ(run.report()["gave_up"], "no_progress");
  EXPECT_EQ(run.report()["culprit"]["exit_code"], 3);
  EXPECT_EQ(run.report()["restarts"], 2);
}

TEST(LaunchRecovery, WhatFailsBeforeItsFirstStepWithTheSameTextIsTriedOnceMore) {
  LaunchRun run({"--max-restarts", "9", "--", "python3", "-c", "open('/no/such/file')"});
  EXPECT_EQ(run.exit_code(), 1);
  EXPECT_THAT(run.err(), HasSubstr("1 of 9 restarts used; not retried: "
                                   "the same failure twice within 30 s and before a step was reported"));
  EXPECT_EQ(run.report()["gave_up"], "no_progress");
  EXPECT_EQ(run.report()["restarts"], 1);
  const char* const stack = "File \"<string>\", line 1, in <module>";
  EXPECT_THAT(run.err(), HasSubstr(stack));
  EXPECT_THAT(std::string(run.report()["summary"]), Not(HasSubstr(stack)))
      << "the terminal has just shown it";
}

// The second attempt fails with another mistake, which is retried.
TEST(LaunchRecovery, AMistakeInTheScriptIsNotTriedAgainUnlessItComesLater) {
  LaunchRun run({"--max-restarts", "9", "--", "python3", "-c", "import no_such_module"});
  EXPECT_EQ(run.exit_code(), 1);
  EXPECT_THAT(run.err(),
              HasSubstr("0 of 9 restarts used; not retried: ModuleNotFoundError in the first attempt, "
                        "within 300 s and before a step, means a mistake in the script"));
  EXPECT_THAT(std::string(run.report()["hint"]), HasSubstr("The command names its own Python"));
  const ScratchDirectory scratch;
  std::ofstream(scratch / "train.py") << "import no_such_module";
  LaunchRun script({scratch / "train.py"});
  EXPECT_EQ(script.exit_code(), 1);
  EXPECT_THAT(std::string(script.report()["hint"]), HasSubstr("PYTHON_EXEC chooses the interpreter"));
  LaunchRun module({"--max-restarts", "9", "-m", "no.such.module"});
  EXPECT_EQ(module.exit_code(), 1);
  EXPECT_EQ(module.report()["restarts"], 0);
  EXPECT_THAT(std::string(module.report()["summary"]),
              HasSubstr("failed with ModuleNotFoundError: No module named 'no'"));
  EXPECT_THAT(std::string(module.report()["hint"]), HasSubstr("PYTHON_EXEC chooses the interpreter"));
  LaunchRun later({"--max-restarts", "9", "--", "python3", "-c",
                   "import os, sys\nattempt = os.environ['MUSTER_ATTEMPT']\n"
                   "if attempt == '1': sys.exit(3)\nif attempt == '2': None.step()"});
  EXPECT_EQ(later.exit_code(), 0) << later.err();
  EXPECT_EQ(later.report()["restarts"], 2);
}

TEST(LaunchRecovery, WhatItsErrorFileCallsFinalIsNotTriedAgain) {
  LaunchRun run({"--max-restarts", "9", "sh", "-c",
                 R"(echo '{"message": "no such layer", "final": true}' > $TORCHELASTIC_ERROR_FILE; exit 3)"});
  EXPECT_EQ(run.exit_code(), 3);
  EXPECT_THAT(run.err(),
              HasSubstr("0 of 9 restarts used; not retried: the program reported a permanent error"));
  EXPECT_EQ(run.report()["restarts"], 0);
}

TEST(LaunchRecovery, AProgramThatReportsNothingOutlivesAnyNumberOfKills) {
  constexpr int kDeaths = 6;
  const ScratchDirectory scratch;
  const std::string program =
      fmt::format("echo x >> {0}/attempts; [ $(wc -l < {0}/attempts) -gt {1} ] || kill -KILL $$",
                  scratch.path().string(), kDeaths);
  LaunchRun run({"--max-restarts", "99", "--restart-delay", "0.05", "sh", "-c", program});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(run.report()["restarts"], kDeaths);
}

TEST(LaunchRecovery, ARestartThatCannotBeginIsTriedAgainUntilItCan) {
  const ScratchDirectory scratch;
  const std::string directory = scratch / "c";
  const std::string away = scratch / "away";
  // The first attempt removes the checkpoint directory, like a file server that fails.
  LaunchRun run(
      {"--max-restarts", "99", "--restart-delay", "0.05", "--checkpoint-dir", directory, "sh", "-c",
       fmt::format("[ $MUSTER_ATTEMPT != 1 ] || {{ mv {0} {1}; : > {0}; exit 3; }}", directory, away)});
  ASSERT_TRUE(run.printed("retrying in"));
  std::filesystem::remove(directory);
  std::filesystem::rename(away, directory);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("exited with code 3; attempt 2 begins; no Muster checkpoint"));
}

TEST(LaunchRecovery, ARestartDoesNotMakeACheckpointDirectoryThatIsGone) {
  const ScratchDirectory scratch;
  const std::string directory = scratch / "c";
  LaunchRun run({"--max-restarts", "1", "--restart-delay", "0.05", "--checkpoint-dir", directory, "sh", "-c",
                 fmt::format("rm -r {}; exit 3", directory)});
  EXPECT_EQ(run.exit_code(), 125) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("the checkpoint directory " + directory +
                                   " is gone (moved or removed during the training)"));
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST(LaunchRecovery, WrongUseOfTheProgramIsNotTriedAgain) {
  LaunchRun run({"--max-restarts", "9", "sh", "-c", "echo usage >&2; exit 2"});
  EXPECT_EQ(run.exit_code(), 2);
  EXPECT_THAT(run.err(), HasSubstr("0 of 9 restarts used; not retried: exit code 2 within 10 s"));
  EXPECT_EQ(run.report()["restarts"], 0);
  EXPECT_TRUE(run.report()["gave_up"].is_null());
}

TEST(LaunchRecovery, AWorkersOwn93PassesThrough) {
  LaunchRun run({"--max-restarts", "1", "sh", "-c", "exit 93"});
  EXPECT_EQ(run.exit_code(), 93);
  EXPECT_EQ(run.report()["gave_up"], "budget");
}

TEST(LaunchRecovery, NamesTheRankThatIsStoppedAndTakesItWithIt) {
  LaunchRun run({"--nodes", "2", "--max-restarts", "0", "sh", "-c", "echo pid $$; exec sleep 1000"});
  ASSERT_TRUE(run.printed("node0:0: pid"));
  ASSERT_TRUE(run.printed("node1:1: pid "));
  const std::string line = run.out().substr(run.out().find("node1:1: pid ") + 13);
  kill(std::stoi(line), SIGSTOP);
  EXPECT_EQ(run.exit_code(), 124) << run.err();
  EXPECT_EQ(run.report()["class"], "hang");
  EXPECT_EQ(run.report()["culprit"]["rank"], 1);
  EXPECT_EQ(run.report()["collateral"], nlohmann::json::array({0}));
  EXPECT_FALSE(run.report()["evidence"].empty());
  EXPECT_LT(run.report()["duration_seconds"], 4 + 10)
      << "it is woken to hear TERM, and the grace is not waited for";
  expect_nothing_left(run);
}

// All ranks make the same steps; then one deadlocks, and the others wait for it. As in docs/protocol.md.
constexpr const char* kDeadlock = R"(
import faulthandler, json, os, socket, threading, time
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
agent.bind("")
agent.connect(os.environ["MUSTER_SOCKET"])
rank = int(os.environ["RANK"])
def say(kind, **fields):
    agent.send(json.dumps({"v": 1, "type": kind, "rank": rank, "pid": os.getpid(),
                           "attempt": int(os.environ["MUSTER_ATTEMPT"]), **fields}).encode())
def obey():
    while command := json.loads(agent.recv(8192)):
        with open(command["path"], "w") as file:
            faulthandler.dump_traceback(file)
        say("stacks")
threading.Thread(target=obey, daemon=True).start()
say("hello", text="stacks")
def all_reduce():
    threading.Event().wait()
def load_batch():
    threading.Event().wait()
open(os.path.join(os.environ["MEET"], str(rank)), "w")
while len(os.listdir(os.environ["MEET"])) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.01)
for step in range(1, 6):
    say("step", step=step)
load_batch() if rank == 2 else all_reduce()
)";

TEST(LaunchRecovery, NamesTheRankInADeadlockByItsStack) {
  const ScratchDirectory meeting;
  LaunchRun run({"--nodes", "2", "--gpus-per-node", "2", "--max-restarts", "0", "--hang-limit", "2", "--env",
                 "MEET=" + meeting.path().string(), "--", "python3", "-c", kDeadlock});
  EXPECT_EQ(run.exit_code(), 124) << run.err();
  EXPECT_EQ(run.report()["class"], "hang");
  EXPECT_EQ(run.report()["culprit"]["rank"], 2) << run.err();
  EXPECT_THAT(run.report()["evidence"].dump(), HasSubstr("in load_batch"));
  EXPECT_EQ(run.report()["collateral"], nlohmann::json::array({0, 1, 3}));
  expect_nothing_left(run);
}

TEST(LaunchRecovery, BlamesNobodyForAHangInWhichAllWaitAtOnePlace) {
  const ScratchDirectory meeting;
  LaunchRun run({"--gpus-per-node", "2", "--max-restarts", "0", "--hang-limit", "2", "--env",
                 "MEET=" + meeting.path().string(), "--", "python3", "-c", kDeadlock});
  EXPECT_EQ(run.exit_code(), 124) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("no rank can be singled out: ranks 0 and 1 hang in "));
  const auto report = run.report();
  EXPECT_EQ(report["class"], "hang");
  EXPECT_EQ(report["culprit"]["rank"], nullptr);
  EXPECT_EQ(report["culprit"]["suspects"], (nlohmann::json{0, 1}));
  expect_nothing_left(run);
}

TEST(LaunchRecovery, PassesUserSignalsOn) {
  LaunchRun run(
      {"--max-restarts", "0", "sh", "-c",
       "trap 'echo one' USR1; trap 'echo two; exit 0' USR2; echo ready; while :; do sleep 0.02; done"});
  ASSERT_TRUE(run.printed("node0:0: ready"));
  run.signal(SIGUSR1);
  ASSERT_TRUE(run.printed("node0:0: one")) << run.err();
  run.signal(SIGUSR2);
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("node0:0: two"));
}

// A script that can leave on notice, in the words of docs/protocol.md.
constexpr const char* kPreemptible = R"(
import json, os, socket, sys
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
agent.bind("")
agent.connect(os.environ["MUSTER_SOCKET"])
def say(kind, step=0, text=""):
    agent.send(json.dumps({"v": 1, "type": kind, "rank": int(os.environ["RANK"]), "pid": os.getpid(), "step": step,
                           "attempt": int(os.environ["MUSTER_ATTEMPT"]), "text": text}).encode())
say("hello", text="preemption")
say("resumed", 1)
while json.loads(agent.recv(8192))["type"] != "preempt":
    pass
if "save" in sys.argv:
    if os.environ["RANK"] == "0":
        say("committed", 5)
    say("preempted", 5)
sys.exit(75)
)";

// Whether the launcher knows that all four run.
bool all_have_resumed(const LaunchRun& run) {
  return eventually([&] {
    const std::string directory = run.job_directory();
    const std::string events =
        directory.empty() ? "" : read_file(directory + "/events.jsonl", 1 << 20).value_or("");
    int count = 0;
    for (std::size_t at = events.find("\"resumed\""); at != std::string::npos;
         at = events.find("\"resumed\"", at + 1))
      ++count;
    return count == 4;
  });
}

TEST(LaunchRecovery, LeavesOnNoticeWithACheckpointAndExits75) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    LaunchRun run({"--nodes", "2", "--gpus-per-node", "2", "--", "python3", "-c", kPreemptible, "save"});
    ASSERT_TRUE(all_have_resumed(run)) << run.err();
    run.signal(signal);
    EXPECT_EQ(run.exit_code(), 75) << run.err();
    EXPECT_EQ(run.report()["class"], "preempted");
    EXPECT_EQ(run.report()["restarts"], 0);
    expect_nothing_left(run);
  }
}

TEST(LaunchRecovery, CtrlCSavesTooAndExits130) {
  LaunchRun run({"--nodes", "2", "--gpus-per-node", "2", "--", "python3", "-c", kPreemptible, "save"});
  ASSERT_TRUE(all_have_resumed(run)) << run.err();
  run.signal(SIGINT);
  EXPECT_EQ(run.exit_code(), 130) << run.err();
  EXPECT_THAT(run.err(),
              HasSubstr("SIGINT: the workers are asked to save and leave within 30 s; Ctrl-C again"));
  EXPECT_EQ(run.report()["class"], "interrupted");
  EXPECT_EQ(run.report()["attempts"][0]["committed_step"], 5);
  expect_nothing_left(run);
}

TEST(LaunchRecovery, LeavingWithoutACheckpointIsBeingStopped) {
  LaunchRun run({"--nodes", "2", "--gpus-per-node", "2", "--", "python3", "-c", kPreemptible});
  ASSERT_TRUE(all_have_resumed(run)) << run.err();
  run.signal(SIGTERM);
  EXPECT_EQ(run.exit_code(), 143) << run.err();
  expect_nothing_left(run);
}

TEST(LaunchRecovery, GivesNoticeBeforeTheTimeLimit) {
  LaunchRun run({"--time-limit", "10", "--preemption-grace", "5", "--nodes", "2", "--gpus-per-node", "2",
                 "--", "python3", "-c", kPreemptible, "save"});
  EXPECT_EQ(run.exit_code(), 75) << run.err();
  EXPECT_LT(run.report()["duration_seconds"], 10);
}

TEST(LaunchRecovery, StopsAtTheTimeLimit) {
  LaunchRun run({"--time-limit", "0.5", "sleep", "1000"});
  EXPECT_EQ(run.exit_code(), 124) << run.err();
  EXPECT_EQ(run.report()["class"], "time_limit");
  expect_nothing_left(run);
}

TEST(LaunchRecovery, LeavesAtOnceWhenTheUserInterruptsThreeTimes) {
  LaunchRun run({"--gpus-per-node", "2", "--grace", "1000", "sh", "-c",
                 "trap '' INT TERM; echo ready; while :; do sleep 0.02; done"});
  ASSERT_TRUE(run.printed("node0:0: ready"));
  ASSERT_TRUE(run.printed("node0:1: ready"));
  run.signal(SIGINT);
  ASSERT_TRUE(run.printed("waiting for 2 workers to end (grace 1000 s; Ctrl-C again to kill)")) << run.err();
  // Whether the signal arrives before or after the workers' end, launch ends with the same code and leaves
  // nothing.
  run.signal(SIGTERM);
  run.signal(SIGINT);
  EXPECT_EQ(run.exit_code(), 130);
  expect_nothing_left(run);
}

TEST(LaunchRecovery, TellsWhatHappenedAsItHappens) {
  LaunchRun run({"--max-restarts", "1", "sh", "-c", "[ $MUSTER_ATTEMPT = 2 ]"});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  std::ifstream file(run.job_directory() + "/events.jsonl");
  std::vector<std::string> events;
  double last = 0;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    events.push_back(json["event"]);
    EXPECT_GE(json["time"], last);
    last = json["time"];
  }
  EXPECT_THAT(events, testing::IsSupersetOf({"agent_joined", "attempt_begun", "workers_started",
                                             "worker_exited", "attempt_ended", "restart", "job_ended"}));
}

}  // namespace
}  // namespace muster
