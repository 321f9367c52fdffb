// A real agent and a fake driver that reports GPU faults.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <unistd.h>

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
  // A driver that takes the GPUs' memory from a file; and two workers.
  std::unique_ptr<TestLauncher> begin_with_memory(const std::string& lines,
                                                  const std::string& script = "sleep 1000") {
    use_memory(lines);
    auto options = with_driver();
    options.environment.push_back("FAKE_NVML_MEMORY=" + (scratch_ / "memory"));
    options.error_file = scratch_ / "agent.log";
    auto launcher = std::make_unique<TestLauncher>(options);
    wire::JobSpec job = this->job(script);
    job.use_gpus = true;
    job.environment["CUDA_VISIBLE_DEVICES"] = "1,2";
    launcher->welcome(job);
    pids = launcher->start(2);
    EXPECT_EQ(pids.size(), 2U);
    return launcher;
  }
  void use_memory(const std::string& lines) {
    std::ofstream(scratch_ / "memory.new") << lines;
    std::filesystem::rename(scratch_ / "memory.new", scratch_ / "memory");
  }
  // Waits until the attempt is gone, and prepares the next one.
  static void begin_next(TestLauncher& launcher) {
    launcher.send(wire::StopWorkers{SIGTERM, std::chrono::nanoseconds(std::chrono::minutes(1)).count()});
    ASSERT_TRUE(launcher.wait_for<wire::WorkersGone>());
    launcher.seen.clear();
    launcher.set_attempt(Attempt(2));
    launcher.prepare(2);
    ASSERT_TRUE(launcher.wait_for<wire::AttemptPrepared>());
    launcher.send(wire::StartWorkers{"127.0.0.1", 1, std::nullopt});
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
  const auto notice = launcher.wait_for<wire::AgentRemark>();
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
  fault(0, 79);  // a GPU of no worker
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
  const auto notice = launcher.wait_for<wire::AgentRemark>();
  ASSERT_TRUE(notice);
  EXPECT_THAT(notice->text, HasSubstr("XID 31"));
  kill(pids[0], SIGABRT);
  const auto exited = launcher.wait_for<wire::WorkerExited>();
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->gpu_fault, "");
}

TEST_F(AgentGpu, StartsTheNextAttemptWhenTheMemoryOfAKilledWorkerIsBack) {
  const auto launcher = begin_with_memory("1 1000\n2 1000\n");
  use_memory(fmt::format("1 9000 {} 8000\n2 9000\n", pids[0]));
  kill(pids[0], SIGKILL);
  begin_next(*launcher);
  const auto waits = launcher->wait_for<wire::AgentRemark>();
  ASSERT_TRUE(waits);
  EXPECT_EQ(waits->text,
            "waiting up to 50 s for the driver to free GPU memory of killed workers: 7.8 GiB of GPU 1");
  use_memory("1 1010\n2 1000\n");
  const auto free = launcher->wait_for<wire::AgentRemark>();
  ASSERT_TRUE(free);
  EXPECT_EQ(free->text, "the GPU memory of killed workers is free");
  EXPECT_THAT(launcher->all<wire::WorkersStarted>(), testing::IsEmpty());
  EXPECT_TRUE(launcher->wait_for<wire::WorkersStarted>());
}

TEST_F(AgentGpu, DoesNotWaitForMemoryThatAnotherLivingProcessHasTaken) {
  const auto launcher = begin_with_memory("1 1000\n2 1000\n");
  use_memory(fmt::format("1 9000 {} 8000\n2 1000\n", getpid()));
  kill(pids[0], SIGKILL);
  begin_next(*launcher);
  EXPECT_TRUE(launcher->wait_for<wire::WorkersStarted>());
  EXPECT_THAT(launcher->all<wire::AgentRemark>(), testing::IsEmpty());
}

TEST_F(AgentGpu, DoesNotWaitForMemoryThatTheDriverListsForNoKilledWorker) {
  const auto launcher = begin_with_memory("1 1000\n2 1000\n");
  use_memory("1 9000\n2 9000\n");
  kill(pids[0], SIGKILL);
  begin_next(*launcher);
  EXPECT_TRUE(launcher->wait_for<wire::WorkersStarted>());
  EXPECT_THAT(launcher->all<wire::AgentRemark>(), testing::IsEmpty());
}

TEST_F(AgentGpu, DoesNotWaitForMemoryAfterWorkersThatEndedByThemselves) {
  const auto launcher =
      begin_with_memory("1 1000\n2 1000\n", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done");
  while (launcher->output(0, 1).empty() || launcher->output(1, 1).empty())
    ASSERT_TRUE(launcher->wait_for<wire::Output>());
  use_memory("1 9000\n2 9000\n");
  begin_next(*launcher);
  EXPECT_TRUE(launcher->wait_for<wire::WorkersStarted>());
  EXPECT_THAT(launcher->all<wire::AgentRemark>(), testing::IsEmpty());
}

TEST_F(AgentGpu, SaysWhatWorkersAndTheirGpusUseWhenItIsAsked) {
  const auto launcher = begin_with_memory("1 1024\n2 2048\n");
  launcher->send(wire::Ping{.sent_ns = 1});
  auto pong = launcher->wait_for<wire::Pong>();
  ASSERT_TRUE(pong);
  EXPECT_THAT(pong->usage, testing::IsEmpty());
  // The driver's answer arrives with a later Pong.
  do {
    launcher->send(wire::Ping{.sent_ns = 2, .usage = true});
    pong = launcher->wait_for<wire::Pong>();
    ASSERT_TRUE(pong);
    ASSERT_EQ(pong->usage.size(), 2U);
  } while (pong->usage[1].gpu_percent < 0);
  const wire::RankUsage& used = pong->usage[1];
  EXPECT_EQ(used.rank, Rank(1));
  EXPECT_GT(used.memory_bytes, 1 << 16);
  EXPECT_GT(used.age_ns, 0);
  EXPECT_EQ(used.gpu, 2);
  EXPECT_EQ(used.gpu_percent, 52);
  EXPECT_EQ(used.gpu_memory_bytes, std::int64_t{2} << 30);
  EXPECT_EQ(used.gpu_memory_total_bytes, std::int64_t{80} << 30);
  EXPECT_EQ(used.gpu_celsius, 62);
  EXPECT_EQ(used.gpu_watts, 302);
}

TEST_F(AgentGpu, SharesGpusAmongMoreWorkersAndNamesTheGpuOfEach) {
  TestLauncher launcher(with_driver());
  wire::JobSpec job = this->job("echo $LOCAL_RANK $CUDA_VISIBLE_DEVICES $NCCL_HOSTID; exec sleep 1000");
  job.use_gpus = true;
  job.share_gpus = true;
  launcher.welcome(job);
  ASSERT_EQ(launcher.start(4).size(), 4U);
  for (int rank = 0; rank < 4; ++rank) {
    while (launcher.output(rank, 1).empty()) ASSERT_TRUE(launcher.wait_for<wire::Output>());
    EXPECT_EQ(launcher.output(rank, 1), fmt::format("0 {} {}-{}\n", rank % 3, job.job_id, rank));
  }
  fault(0, 95);
  for (const int rank : {0, 3}) {
    const auto notice = launcher.wait_for<wire::AgentRemark>();
    ASSERT_TRUE(notice);
    EXPECT_EQ(notice->text, fmt::format("rank {}: XID 95: uncontained ECC error (GPU 0)", rank));
  }
  launcher.send(wire::Ping{.sent_ns = 1, .usage = true});
  const auto pong = launcher.wait_for<wire::Pong>();
  ASSERT_TRUE(pong);
  ASSERT_EQ(pong->usage.size(), 4U);
  EXPECT_EQ(pong->usage[3].gpu, 0);
}

TEST_F(AgentGpu, DoesWithoutADriver) {
  TestLauncher launcher({.error_file = scratch_ / "agent.log"});
  begin(launcher);
  launcher.send(wire::StopWorkers{SIGKILL, 0});
  EXPECT_TRUE(launcher.wait_for<wire::WorkersGone>());
  EXPECT_TRUE(eventually([&] {
    return read_file(scratch_ / "agent.log", 1 << 20).value_or("").find("GPU faults are not watched") !=
           std::string::npos;
  }));
}

}  // namespace
}  // namespace muster
