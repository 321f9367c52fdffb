// A real agent and workers that live but make no progress.
#include <csignal>
#include <filesystem>
#include <fstream>

#include "common/base/clock.h"
#include "tests/process/agent_process_fixture.h"
#include "tests/process/test_cgroup.h"

namespace muster {
namespace {

using testing::HasSubstr;

class AgentHang : public AgentProcess {};

// Unit tests show that 5 s is the limit. An agent that could not run for a second starts counting again.
constexpr Duration kTold = std::chrono::seconds(15);

TEST_F(AgentHang, TellsAStoppedWorkerWhateverItRuns) {
  TestLauncher launcher({});
  launcher.welcome(job("sleep 1000"));
  const auto pids = launcher.start(3);
  ASSERT_EQ(pids.size(), 3U);
  const TimePoint stopped = Clock::now();
  kill(pids[1], SIGSTOP);
  const auto stalled = launcher.wait_for<wire::WorkerStalled>();
  ASSERT_TRUE(stalled);
  EXPECT_LT(Clock::now() - stopped, kTold);
  EXPECT_EQ(stalled->rank, Rank(1));
  EXPECT_TRUE(stalled->stopped);
  EXPECT_TRUE(stalled->hard);
  EXPECT_THAT(stalled->what, HasSubstr("is stopped (SIGSTOP)"));
  EXPECT_GE(stalled->since_ns, to_ns(stopped));
}

// The child of vfork() keeps its parent in state D until it ends.
TEST_F(AgentHang, TellsAWorkerInUninterruptibleSleepWhateverItRuns) {
  TestLauncher launcher({});
  wire::JobSpec job = this->job("");
  job.command = {"python3", "-c", "import ctypes, time; ctypes.CDLL(None).vfork() or time.sleep(1000)"};
  job.limits.uninterruptible_limit = std::chrono::seconds(1);
  launcher.welcome(job);
  ASSERT_EQ(launcher.start(1).size(), 1U);
  const auto stalled = launcher.wait_for<wire::WorkerStalled>();
  ASSERT_TRUE(stalled);
  EXPECT_TRUE(stalled->hard);
  EXPECT_FALSE(stalled->stopped);
  EXPECT_THAT(stalled->what, HasSubstr("is in uninterruptible sleep (state D)"));
  launcher.send(wire::StopWorkers{SIGTERM, 0});
  EXPECT_TRUE(launcher.wait_for<wire::WorkersGone>());
}

class AgentFreezer : public AgentProcess, public testing::WithParamInterface<bool> {};

TEST_P(AgentFreezer, TellsAFrozenWorker) {
  const bool unified = GetParam();
  const bool hybrid = std::filesystem::exists("/sys/fs/cgroup/unified/cgroup.procs");
  TestCgroup group(!unified ? "/sys/fs/cgroup/freezer"
                            : (hybrid ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup"));
  if (!group.made()) GTEST_SKIP() << "cannot make a control group here";
  TestLauncher launcher({});
  launcher.welcome(job("sleep 1000"));
  const auto pids = launcher.start(1);
  ASSERT_EQ(pids.size(), 1U);
  group.write("cgroup.procs", std::to_string(pids[0]));
  const TimePoint frozen = Clock::now();
  group.write(unified ? "cgroup.freeze" : "freezer.state", unified ? "1" : "FROZEN");
  const auto stalled = launcher.wait_for<wire::WorkerStalled>();
  group.write(unified ? "cgroup.freeze" : "freezer.state", unified ? "0" : "THAWED");
  ASSERT_TRUE(stalled);
  EXPECT_LT(Clock::now() - frozen, kTold);
  EXPECT_TRUE(stalled->hard);
  EXPECT_TRUE(stalled->stopped);
  EXPECT_THAT(stalled->what, HasSubstr("is frozen"));
  launcher.send(wire::StopWorkers{SIGTERM, 0});
  EXPECT_TRUE(launcher.wait_for<wire::WorkersGone>());
}

INSTANTIATE_TEST_SUITE_P(CgroupVersions, AgentFreezer, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Two" : "One"; });

constexpr const char* kPythonWorker = R"(
import json, os, socket, time
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
agent.connect(os.environ["MUSTER_SOCKET"])
def report(kind, **more):
    agent.send(json.dumps({"v": 1, "type": kind, "rank": int(os.environ["RANK"]), "pid": os.getpid(),
                           "attempt": int(os.environ["MUSTER_ATTEMPT"]), **more}).encode())
for step in range(5):
    report("heartbeat", step=step)
    report("step", step=step)
if os.environ["RANK"] == "0":
    report("section", name="eval", state="enter")
time.sleep(1000)
)";

TEST_F(AgentHang, TellsAWorkerWhoseStepsSectionsOrHeartbeatsStop) {
  std::ofstream(scratch_ / "worker.py") << kPythonWorker;
  wire::JobSpec job = this->job("");
  job.command = {"python3", scratch_ / "worker.py"};
  for (const bool heartbeats : {true, false}) {
    job.limits.heartbeat_limit = std::chrono::seconds(heartbeats ? 3 : 0);
    job.limits.hang_limit = std::chrono::seconds(heartbeats ? 0 : 2);
    TestLauncher launcher({});
    launcher.welcome(job);
    ASSERT_EQ(launcher.start(2).size(), 2U);
    std::map<std::int32_t, wire::WorkerStalled> hard;
    while (hard.size() < 2) {
      const auto stalled = launcher.wait_for<wire::WorkerStalled>();
      ASSERT_TRUE(stalled);
      if (stalled->hard) hard[stalled->rank.value()] = *stalled;
      EXPECT_EQ(stalled->step, 4);
    }
    EXPECT_THAT(hard[0].what, HasSubstr(heartbeats ? "sent no heartbeat" : "is in section 'eval'"));
    EXPECT_THAT(hard[1].what, HasSubstr(heartbeats ? "sent no heartbeat" : "has made no step after step 4"));
    EXPECT_EQ(hard[0].section, "eval");
    EXPECT_FALSE(hard[0].stopped);
    launcher.send(wire::StopWorkers{SIGTERM, 0});
    launcher.send(wire::Leave{});
    EXPECT_EQ(launcher.agent_exit(), 0);
  }
}

}  // namespace
}  // namespace muster
