// The real launcher and agents, with plain Python programs that import the module that launch provides,
// without installing it and without torch.
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/file.h"
#include "tests/process/agent_test_launcher.h"
#include "tests/process/launch_run.h"
#include "tests/process/py_spy.h"
#include "tests/scratch_directory.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::Not;

// A training with its own snapshots, which uses only Muster's module. Steps wait for all ranks, as an
// all-reduce does. Each rank adds up its steps, so that a missing or repeated step shows.
constexpr const char* kTraining = R"(
import json, os, sys, time
import muster
directory, last, every, pause, way = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
rank, world, attempt = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["MUSTER_ATTEMPT"]

def meet(step, word=""):
    os.makedirs(f"{directory}/meet/{attempt}/{step}", exist_ok=True)
    open(f"{directory}/meet/{attempt}/{step}/{rank}{word}", "w").close()
    with muster.waiting():
        while len(there := os.listdir(f"{directory}/meet/{attempt}/{step}")) < world:
            time.sleep(0.002)
    return any("leave" in name for name in there)

def save(step, total):
    with open(f"{directory}/new-{rank}", "w") as file:
        json.dump(total, file)
    os.replace(f"{directory}/new-{rank}", f"{directory}/snapshot-{rank}-{step}")
    if way == "all":
        meet(f"saved-{step}")
        muster.committed(step, all=True)
    else:
        muster.committed(step)

start, total = muster.resume_step() or 0, 0
if start:
    with open(f"{directory}/snapshot-{rank}-{start}") as file:
        total = json.load(file)
print(f"rank {rank} attempt {attempt} starts at {start}", flush=True)
for step in range(start + 1, last + 1):
    time.sleep(pause)
    leave = meet(step, "leave" if muster.preemption_noticed() else "")
    total += step * (rank + 1)
    muster.step(step)
    if leave or step % every == 0:
        save(step, total)
    if leave:
        raise muster.Preempted
print(f"rank {rank} total {total}", flush=True)
)";

std::string total_of(int rank, int last) {
  return fmt::format("rank {} total {}", rank, last * (last + 1) / 2 * (rank + 1));
}

class LaunchPython : public testing::Test {
 protected:
  std::vector<std::string> training(std::vector<std::string> flags, std::vector<std::string> arguments) {
    for (const std::string_view word : {"--", "python3", "-c", kTraining}) flags.emplace_back(word);
    flags.push_back(directory_.path().string());
    flags.insert(flags.end(), arguments.begin(), arguments.end());
    return flags;
  }
  ScratchDirectory directory_;
};

class LaunchPythonSaves : public LaunchPython, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Ways, LaunchPythonSaves, testing::Values("each", "all"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(LaunchPythonSaves, ATrainingWithSnapshotsOfItsOwnIsRecovered) {
  LaunchRun run(training({"--nodes", "2", "--max-restarts", "2"}, {"60", "10", "0.02", GetParam()}));
  const auto committed = [&](int step) {
    return eventually([&] {
      return read_file(run.job_directory() + "/events.jsonl", 1 << 20)
          .value_or("")
          .contains(fmt::format("\"text\":\"step {}\"", step));
    });
  };
  ASSERT_TRUE(committed(20)) << run.err();
  kill(run.agent_of(1), SIGKILL);
  EXPECT_EQ(run.exit_code(), 0) << run.err() << run.out();
  const auto report = run.report();
  ASSERT_EQ(report["attempts"].size(), 2U);
  const std::int64_t resumed = report["attempts"][0]["committed_step"];
  EXPECT_GE(resumed, 20);
  EXPECT_EQ(report["attempts"][1]["resumed_step"], resumed);
  EXPECT_EQ(report["attempts"][1]["last_step"], 60);
  EXPECT_EQ(report["attempts"][1]["committed_step"], 60);
  EXPECT_EQ(report["attempts"][1]["repeated_steps"],
            report["attempts"][0]["last_step"].get<std::int64_t>() - resumed);
  EXPECT_THAT(run.err(),
              HasSubstr(fmt::format("attempt 2 can resume from step {} (restart 1 of 2)", resumed)));
  EXPECT_THAT(run.out(), HasSubstr(fmt::format("rank 0 attempt 2 starts at {}", resumed)));
  for (const int rank : {0, 1}) EXPECT_THAT(run.out(), HasSubstr(total_of(rank, 60)));
  expect_nothing_left(run);
}

TEST_F(LaunchPython, WhatOneRankHasNotSavedIsNotCommitted) {
  constexpr const char* kScript = R"(
import os, muster
rank, first = int(os.environ["RANK"]), os.environ["MUSTER_ATTEMPT"] == "1"
print("resumes from", muster.resume_step(), flush=True)
if first:
    for step in (10, 20) if rank == 0 else (10,):
        muster.step(step)
        muster.committed(step)
    muster.committed(30, all=True) if rank == 1 else None  # only rank 0 can speak for all
    import time
    time.sleep(1.5 if rank == 0 else 1)
    os._exit(7)
)";
  LaunchRun run({"--gpus-per-node", "2", "--max-restarts", "1", "--", "python3", "-c", kScript});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("resumes from None"));
  EXPECT_THAT(run.out(), HasSubstr("resumes from 10"));
  EXPECT_EQ(run.report()["attempts"][0]["committed_step"], 10);
  EXPECT_EQ(run.report()["attempts"][0]["last_step"], 20);
}

TEST_F(LaunchPython, LeavesOnNoticeWithACommitOfTheStepThatAllHaveMade) {
  LaunchRun run(training({"--gpus-per-node", "2"}, {"100000", "1000", "0.01", "each"}));
  ASSERT_TRUE(run.printed("rank 1 attempt 1 starts at 0"));
  ASSERT_TRUE(
      eventually([&] { return read_file(run.job_directory() + "/events.jsonl", 1 << 20).has_value(); }));
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(directory_ / "meet/1/20"); }));
  run.signal(SIGTERM);
  EXPECT_EQ(run.exit_code(), 75) << run.err();
  EXPECT_EQ(run.report()["class"], "preempted");
  const auto attempt = run.report()["attempts"][0];
  EXPECT_GE(attempt["committed_step"], 20);
  EXPECT_EQ(attempt["committed_step"], attempt["last_step"]);
  EXPECT_EQ(run.report()["lost_steps"], 0);
}

TEST_F(LaunchPython, ARankThatHangsInASectionIsNamedWithItAndItsStep) {
  constexpr const char* kScript = R"(
import os, time, muster
@muster.section("evaluate")
def evaluate():
    time.sleep(1000)
for step in range(1, 8):
    time.sleep(0.05)
    muster.step()
if os.environ["RANK"] == "1":
    evaluate()
muster.idle()
time.sleep(1000)
)";
  LaunchRun run(
      {"--gpus-per-node", "2", "--max-restarts", "0", "--hang-limit", "3", "--", "python3", "-c", kScript});
  EXPECT_EQ(run.exit_code(), 124) << run.err();
  const auto report = run.report();
  EXPECT_EQ(report["class"], "hang");
  EXPECT_EQ(report["culprit"]["rank"], 1);
  EXPECT_EQ(report["culprit"]["step"], 7);
  EXPECT_THAT(report["cause"].get<std::string>(), HasSubstr("is in section 'evaluate'"));
  const auto stacks = read_file(run.job_directory() + "/attempt_1/rank_1/stacks.txt", 1 << 20).value_or("");
  EXPECT_THAT(stacks, HasSubstr("in evaluate")) << "its Python stack";
}

TEST_F(LaunchPython, ARankThatIsSlowInItsGroupIsNamed) {
  constexpr const char* kScript = R"(
import os, time, muster
directory = os.sys.argv[1]
rank = int(os.environ["RANK"])
for step in range(1, 10**6):
    time.sleep([0.05, 0.05, 0.12, 0.18][rank])
    with muster.waiting():
        time.sleep(0.01)
    muster.step(step, group="small" if rank < 3 else "big")
    if os.path.exists(directory + "/end"):
        break
)";
  LaunchRun run({"--nodes", "4", "--", "python3", "-c", kScript, directory_.path()});
  EXPECT_TRUE(eventually([&] { return run.err().contains("rank 2 (node2) is slower than the others: 1"); },
                         std::chrono::seconds(50)))
      << run.err();
  const std::string out = directory_ / "status";
  ASSERT_EQ(std::system(fmt::format("{} status --json --log-dir {} > {}", LAUNCH_PROGRAM,
                                    std::filesystem::path(run.job_directory()).parent_path().string(), out)
                            .c_str()),
            0);
  const auto status = nlohmann::json::parse(read_file(out, 1 << 20).value_or(""));
  ASSERT_EQ(status["ranks"].size(), 4U);
  for (const auto& rank : status["ranks"]) EXPECT_GT(rank["step"], 20) << status;
  std::ofstream(directory_ / "end");
  EXPECT_EQ(run.exit_code(), 0) << run.err();
}

TEST_F(LaunchPython, WhatARankForksOrStartsIsSilent) {
  constexpr const char* kScript = R"(
import multiprocessing, os, subprocess, sys, threading, muster
def in_child():
    muster.step(500)
    muster.committed(500, all=True)
    with muster.section("child"):
        pass
    assert muster.preemption_noticed() is False
if __name__ == "__main__":
    muster.step(1)
    threads = [threading.Thread(target=lambda: [muster.step() for _ in range(1000)]) for _ in range(4)]
    [thread.start() for thread in threads]
    for _ in range(20):
        if os.fork() == 0:
            in_child()
            sys.exit(0)
        assert os.wait()[1] == 0
    [thread.join() for thread in threads]
    subprocess.run([sys.executable, "-c", 'import muster; muster.step(900); muster.committed(900, all=True)'], check=True)
    muster.step()
    muster.committed(4002, all=True)
    print("ended")
)";
  LaunchRun run({"--max-restarts", "0", "--", "python3", "-c", kScript});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  const auto attempt = run.report()["attempts"][0];
  EXPECT_EQ(attempt["last_step"], 4002);
  EXPECT_EQ(attempt["committed_step"], 4002);
  EXPECT_THAT(read_file(run.job_directory() + "/events.jsonl", 1 << 20).value_or(""),
              Not(HasSubstr("step 500")));
}

// Stands for libraries that start processes of their own and meet at a port of their own, such as Ray, dask
// or XGBoost: each rank waits for an inner launcher, whose worker has a session of its own. Rank 0's worker
// adds up numbers of all workers. The flock fails if a worker of the killed attempt still lives.
TEST_F(LaunchPython, ALibraryWithItsOwnProcessesAndPortIsRestartedAsAWhole) {
  std::ofstream(directory_ / "library.py") << R"(
import fcntl, os, signal, socket, subprocess, sys, time
from pathlib import Path
folder, role = Path(sys.argv[1]), sys.argv[2]
rank, world, attempt = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MUSTER_ATTEMPT"))
if role == "rank":
    sys.exit(subprocess.run([sys.executable, __file__, folder, "launcher"]).returncode)
if role == "launcher":
    worker = subprocess.Popen([sys.executable, __file__, folder, "worker"], start_new_session=True)
    sys.exit(1 if worker.wait() else 0)
lock = open(folder / f"lock-{rank}", "w")
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
address, checkpoint = folder / f"port-{attempt}", folder / "checkpoint"
def write(path, words):
    path.with_suffix(".new").write_text(words)
    os.replace(path.with_suffix(".new"), path)
if rank == 0:
    server = socket.create_server((os.environ["MASTER_ADDR"], 0))
    write(address, str(server.getsockname()[1]))
    peers = [server.accept()[0].makefile("rw") for _ in range(world - 1)]
else:
    while not address.exists():
        time.sleep(0.01)
    peers = [socket.create_connection((os.environ["MASTER_ADDR"], int(address.read_text()))).makefile("rw")]
start, total = map(int, checkpoint.read_text().split()) if checkpoint.exists() else (0, 0)
print("rank", rank, "starts at", start, flush=True)
for step in range(start + 1, 41):
    if rank == 1 and step == 15 and attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    number = step * (rank + 1)
    if rank == 0:
        number += sum(int(peer.readline()) for peer in peers)
    for peer in peers:
        print(number, file=peer, flush=True)
    total += number if rank == 0 else int(peers[0].readline())
    if rank == 0 and step % 10 == 0:
        write(checkpoint, f"{step} {total}")
print("rank", rank, "total", total, flush=True)
)";
  LaunchRun run({"--nodes", "2", "--gpus-per-node", "2", "--max-restarts", "1", directory_ / "library.py",
                 directory_.path().string(), "rank"});
  EXPECT_EQ(run.exit_code(), 0) << run.err() << run.out();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(run.out(), HasSubstr(fmt::format("rank {} starts at 10", rank)));
    EXPECT_THAT(run.out(), HasSubstr(fmt::format("rank {} total 8200", rank)));
  }
  EXPECT_EQ(run.report()["attempts"].size(), 2U);
  expect_nothing_left(run);
}

TEST_F(LaunchPython, AStepCostsATrainingNothing) {
  constexpr const char* kScript = R"(
import time, muster
took = []
for step in range(20000):
    before = time.perf_counter_ns()
    muster.step(step)
    took.append(time.perf_counter_ns() - before)
print("median", sorted(took)[len(took) // 2] / 1000, "us")
)";
  LaunchRun run({"--", "python3", "-c", kScript});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  ASSERT_THAT(run.out(), HasSubstr("median "));
  EXPECT_LE(std::stod(run.out().substr(run.out().find("median ") + 7)), 5);
}

// Its ranks do not import muster. Rank 1 waits in another function than the others, for as many seconds as it
// is told.
constexpr const char* kSilent = R"(
import os, sys, time
def meet():
    while not os.path.exists(sys.argv[1] + "/met"):
        time.sleep(0.01)
def load():
    time.sleep(float(sys.argv[2]))
    open(sys.argv[1] + "/met", "w").close()
load() if os.environ["RANK"] == "1" else meet()
)";

TEST_F(LaunchPython, ARankThatHangsWithoutReportingStepsIsNamed) {
  const auto path = path_with_py_spy();
  if (!path) GTEST_SKIP() << "py-spy is not installed, or may not look here";
  const std::map<std::string, std::string> environment{{"PATH", *path}};
  const std::string script = directory_ / "silent.py";
  std::ofstream(script) << kSilent;
  LaunchRun hangs({"--gpus-per-node", "3", "--max-restarts", "0", "--hang-limit", "4", "--", "python3",
                   script, directory_.path(), "1000"},
                  environment);
  EXPECT_EQ(hangs.exit_code(), 124) << hangs.err();
  EXPECT_THAT(hangs.err(), HasSubstr("no rank has moved for"));
  EXPECT_THAT(hangs.err(), HasSubstr("rank 1 (node0) is in load (silent.py:7); "
                                     "2 ranks, such as 0, are in meet (silent.py:5)"));
  EXPECT_EQ(hangs.report()["culprit"]["rank"], 1);
  EXPECT_THAT(hangs.report()["cause"].get<std::string>(),
              HasSubstr("it has been in load (silent.py:7) for 4 s"));
  LaunchRun goes_on(
      {"--gpus-per-node", "3", "--hang-limit", "10", "--", "python3", script, directory_.path(), "9"},
      environment);
  EXPECT_EQ(goes_on.exit_code(), 0) << goes_on.err();
  const auto stalls = goes_on.report()["attempts"][0]["stalls"];
  ASSERT_EQ(stalls.size(), 1U) << goes_on.err();
  EXPECT_NEAR(stalls[0]["until"].get<double>() - stalls[0]["since"].get<double>(), 8,
              4);  // looks are late on a busy machine
}

TEST_F(LaunchPython, AHangLimitThatCannotWorkIsMentioned) {
  const std::string python = link_to_python(directory_.path());
  LaunchRun run({"--hang-limit", "4", "--", python, "-c", "import time; time.sleep(5)"},
                {{"PATH", directory_.path()}});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.err(), HasSubstr("--hang-limit has no effect until the script reports its steps "
                                   "(import muster; muster.step())"));
  EXPECT_THAT(run.err(), HasSubstr("pip install py-spy"));
}

TEST_F(LaunchPython, TakesAModuleThatIsInstalledOrTheUsersOwn) {
  constexpr const char* kScript =
      "import sys; import muster; print('found', muster.__file__, len([p for p in sys.path if 'python.zip' in p]))";
  std::filesystem::create_directories(directory_ / "site/muster");
  std::ofstream(directory_ / "site/muster/__init__.py") << "";
  std::ofstream(directory_ / "site/sitecustomize.py")
      << fmt::format("import sys; sys.path.append('{}/installed')", directory_.path().string());
  std::filesystem::create_directories(directory_ / "installed/muster");
  std::ofstream(directory_ / "installed/muster/__init__.py") << "";
  {
    LaunchRun run({"--", "python3", "-c", kScript}, {{"PYTHONPATH", directory_ / "site"}});
    EXPECT_EQ(run.exit_code(), 0) << run.err();
    EXPECT_THAT(run.out(), HasSubstr("found " + (directory_ / "site/muster/__init__.py")));
  }
  std::filesystem::remove_all(directory_ / "site/muster");
  {
    LaunchRun run({"--", "python3", "-c", kScript}, {{"PYTHONPATH", directory_ / "site"}});
    EXPECT_EQ(run.exit_code(), 0) << run.err();
    EXPECT_THAT(run.out(), HasSubstr("found " + (directory_ / "installed/muster/__init__.py") + " 0"));
  }
}

// Gloo may abort the process in the same way.
TEST_F(LaunchPython, ARankThatCrashesAfterItsLastLineDoesNotEndTheOthersAndIsNotTriedAgain) {
  constexpr const char* kScript = R"(
import atexit, os, subprocess, sys, time
class Crash:
    def __del__(self, abort=os.abort):
        abort()
rank = os.environ["RANK"]
if rank == "0":
    atexit.register(os.abort)
elif rank == "1":
    crash = Crash()
else:
    time.sleep(1)  # the others have crashed
print("last line of", rank, flush=True)
)";
  LaunchRun run({"--gpus-per-node", "3", "--max-restarts", "3", "--", "python3", "-c", kScript});
  EXPECT_EQ(run.exit_code(), 128 + SIGABRT) << run.err();
  EXPECT_EQ(run.report()["restarts"], 0);
  EXPECT_THAT(run.err(), HasSubstr("had run its last line when it was killed by SIGABRT"));
  EXPECT_THAT(run.err(), HasSubstr("not retried: all ranks had run their last line"));
  EXPECT_THAT(run.err(), HasSubstr("destroy_process_group()"));
  EXPECT_THAT(run.out(), HasSubstr("last line of 2"));
}

// Each of the first attempts crashes, but not after its last line.
TEST_F(LaunchPython, ARankThatCrashesBeforeItsLastLineIsTriedAgain) {
  constexpr const char* kScript = R"(
import atexit, os, subprocess, sys
attempt = int(os.environ["MUSTER_ATTEMPT"])
subprocess.run([sys.executable, "-c", "pass"], check=True)  # a child has a last line, too
if attempt == 1:
    os.abort()
if attempt < 5:
    atexit.register(os.abort)
if attempt == 2:
    sys.exit(3)
if attempt == 3:
    raise ValueError("no")
if attempt == 4:
    exit("no")
)";
  LaunchRun run({"--max-restarts", "9", "--restart-delay", "0.05", "--no-progress-limit", "0", "--",
                 "python3", "-c", kScript});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_EQ(run.report()["restarts"], 4);
}

TEST_F(LaunchPython, TheUsersSitecustomizeRunsAsWithoutLaunch) {
  std::ofstream(directory_ / "sitecustomize.py") << "import sys; sys.mine = __file__";
  const std::string folder = directory_.path().string();
  const std::string made = "python3 -m venv --without-pip " + folder + "/venv";
  const std::string moved =
      fmt::format("mv {0}/sitecustomize.py {0}/venv/lib/python3*/site-packages/", folder);
  ASSERT_EQ(std::system((made + " && " + moved).c_str()), 0);
  LaunchRun run({"--", directory_ / "venv/bin/python3", "-c",
                 "import sys, sitecustomize; print('ran', sys.mine == sitecustomize.__file__, sys.mine)"});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("ran True " + (directory_ / "venv/lib/python3")));
}

TEST_F(LaunchPython, DoesNothingWithoutALauncherOrWithoutItsAgent) {
  constexpr const char* kScript = R"(
import os, signal, time, muster
if "MUSTER_SOCKET" in os.environ:
    muster.step(1)
    if os.environ["MUSTER_SOCKET"].endswith("agent.sock"):
        os.unlink(os.environ["MUSTER_SOCKET"])
@muster.section("a")
def work():
    muster.step()
for _ in range(1000):
    work()
with muster.section("b"), muster.waiting():
    muster.committed(5)
    muster.committed(5, all=True)
muster.resumed(3)
muster.idle()
print(muster.preemption_noticed(), muster.resume_step())
def refused(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except (TypeError, ValueError) as error:
        print(error)
for wrong in (-1, "7", 1.5, True, 2**63):
    refused(muster.step, wrong)
for field, wrong in (("group", 7), ("busy_ms", "long"), ("busy_ms", float("nan")), ("loss", "x"), ("samples", "many")):
    refused(muster.step, 8, **{field: wrong})
refused(muster.section, 5)
refused(muster.report, {})
refused(muster.report, "loss", "x")
try:
    raise muster.Preempted
except SystemExit as leaving:
    print("code", leaving.code)
)";
  const std::string said = R"(False None
muster: -1 is not a step: expected 0 or more, at most 9223372036854775807
muster: '7' is not a step: expected an integer
muster: 1.5 is not a step: expected an integer
muster: True is not a step: expected an integer
muster: 9223372036854775808 is not a step: expected 0 or more, at most 9223372036854775807
muster: 7 is not a group: expected a word that is the same on all its ranks
muster: busy_ms is 'long': expected a number
muster: busy_ms is nan: expected milliseconds
muster: loss is 'x': expected a number
muster: samples is 'many': expected a number
muster: 5 is not a section's name: expected a string
muster: report({}) has no value: expected at least one, such as report({"loss": 0.25})
muster: loss is 'x': expected a number
code 75
)";
  const std::string script = directory_ / "script.py", out = directory_ / "out";
  std::ofstream(script) << kScript;
  for (const char* variables :
       {"", "MUSTER_SOCKET=/nowhere RANK=0 MUSTER_ATTEMPT=1", "MUSTER_SOCKET=/dev/null"}) {
    ASSERT_EQ(
        std::system(fmt::format("env {} PYTHONPATH={} python3 {} > {}", variables, PYTHON_FOLDER, script, out)
                        .c_str()),
        0);
    EXPECT_EQ(read_file(out, 4096).value_or(""), said) << variables;
  }
  LaunchRun run({"--", "python3", script});
  EXPECT_EQ(run.exit_code(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("1.5 is not a step: expected an integer"));
}

}  // namespace
}  // namespace muster
