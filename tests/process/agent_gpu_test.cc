// A real agent and a driver that tells of faults; the driver is a script's.
#include <csignal>
#include <fstream>

#include "tests/process/agent_process_fixture.h"

namespace muster {
namespace {

using testing::HasSubstr;

// Two workers, on GPU 1 and 2.
class AgentGpu : public AgentProcess {
 protected:
  void begin(TestLauncher& launcher) {
    wire::JobSpec job = this->job("sleep 1000");
    job.use_gpus = true;
    job.environment["CUDA_VISIBLE_DEVICES"] = "1,2";
    launcher.welcome(job);
    pids = launcher.start(2);
    ASSERT_EQ(pids.size(), 2U);
  }
  TestLauncher::Options with_driver() {
    return {
        .environment = {"LD_LIBRARY_PATH=" FAKE_NVML_DIRECTORY, "FAKE_NVML_EVENTS=" + (scratch_ / "events")}};
  }
  void fault(int gpu, int xid) {
    std::ofstream(scratch_ / "events", std::ios::app) << gpu << " 8 " << xid << "\n";
  }
  std::vector<std::int32_t> pids;
};

TEST_F(AgentGpu, TellsOfAFaultAndNamesItWhenTheWorkerDies) {
  TestLauncher launcher(with_driver());
  begin(launcher);
  fault(2, 95);
  const auto notice = launcher.wait_for<wire::AgentNotice>();
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->text, "rank 1: XID 95: uncontained ECC error (GPU 2)");
  for (const std::size_t rank : {1U, 0U}) {
    kill(pids[rank], SIGABRT);
    const auto exited = launcher.wait_for<wire::WorkerExited>();
    ASSERT_TRUE(exited);
    EXPECT_EQ(exited->gpu_fault, rank == 1 ? "XID 95: uncontained ECC error (GPU 2)" : "");
  }
}

TEST_F(AgentGpu, TakesAWorkerWhoseGpuIsLostForOneThatHangs) {
  TestLauncher launcher(with_driver());
  begin(launcher);
  fault(0, 79);  // nobody's
  fault(1, 79);
  const auto stalled = launcher.wait_for<wire::WorkerStalled>();
  ASSERT_TRUE(stalled);
  EXPECT_EQ(stalled->rank, Rank(0));
  EXPECT_TRUE(stalled->hard);
  EXPECT_EQ(stalled->what, "has lost its GPU: XID 79: GPU has fallen off the bus (GPU 1)");
}

TEST_F(AgentGpu, DoesNotBlameTheGpuForTheProgramsFault) {
  TestLauncher launcher(with_driver());
  begin(launcher);
  fault(1, 31);
  const auto notice = launcher.wait_for<wire::AgentNotice>();
  ASSERT_TRUE(notice);
  EXPECT_THAT(notice->text, HasSubstr("XID 31"));
  kill(pids[0], SIGABRT);
  const auto exited = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->gpu_fault, "");
}

TEST_F(AgentGpu, DoesWithoutADriver) {
  TestLauncher launcher({.error_file = scratch_ / "agent.log"});
  begin(launcher);
  EXPECT_TRUE(eventually([&] {
    return read_file(scratch_ / "agent.log", 1 << 20).value_or("").find("GPU faults are not watched") !=
           std::string::npos;
  }));
  launcher.send(wire::StopWorkers{SIGKILL, 0});
  EXPECT_TRUE(launcher.wait_for<wire::WorkersGone>());
}

}  // namespace
}  // namespace muster
