#include "agent/core/health/worker_health.h"

#include <gmock/gmock.h>

namespace muster::agent {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

// Ranks 0 and 1 on GPUs 6 and 7, and a clock that the test moves.
class WorkerHealthTest : public testing::Test {
 protected:
  WorkerHealthTest() {
    health_.started(Rank(0), 100, 6, now_);
    health_.started(Rank(1), 101, 7, now_);
  }
  static Report hello(Rank rank, std::string capabilities) {
    Report report;
    report.message.rank = rank;
    report.message.kind = wire::ReportKind::kHello;
    report.message.text = std::move(capabilities);
    return report;
  }
  static GpuFault fault(unsigned gpu, XidClass fault_class) {
    return {gpu, {fault_class, "XID 1: it broke"}};
  }
  // "notice: TEXT", "stalled RANK: WHAT".
  std::vector<std::string> look(bool output_waits = false) {
    now_ += HangWatch::kLookInterval;
    return told(health_.look(states_, output_waits, now_));
  }
  static std::vector<std::string> told(const WorkerHealth::Messages& messages) {
    std::vector<std::string> told;
    for (const wire::ToLauncher& message : messages) {
      if (const auto* notice = std::get_if<wire::AgentRemark>(&message))
        told.push_back("notice: " + notice->text);
      if (const auto* stalled = std::get_if<wire::WorkerStalled>(&message))
        told.push_back(fmt::format("stalled {}: {}", stalled->rank, stalled->what));
    }
    return told;
  }

  TimePoint now_{1000s};
  std::map<Rank, ProcessState> states_;
  wire::JobSpec job_ = [] {
    wire::JobSpec job;
    job.limits.heartbeat_limit = 6s;
    return job;
  }();
  WorkerHealth health_{job_};
};

TEST_F(WorkerHealthTest, OnlyTheWorkerItselfTellsOfItsLastLine) {
  for (const auto& [rank, pid] : {std::pair(0, 100), std::pair(1, 4711)}) {
    Report report;
    report.message.rank = Rank(rank);
    report.message.kind = wire::ReportKind::kLastLine;
    report.pid = pid;
    health_.on(report, "", now_);
    wire::WorkerExited exited;
    health_.ended(Rank(rank), exited);
    EXPECT_EQ(exited.ran_last_line, rank == 0) << "a child of rank 1 has sent it";
  }
}

TEST_F(WorkerHealthTest, TellsOnceThatAHangLimitOfTheUsersCannotWork) {
  const std::map<Rank, MainThread> blind{{Rank(0), {"", {}, "py-spy is not installed"}},
                                         {Rank(1), {"", {}, "py-spy is not installed"}}};
  EXPECT_THAT(told(health_.on(blind, now_)), IsEmpty());
  job_.hang_limit_given = true;
  health_ = WorkerHealth(job_);
  health_.started(Rank(0), 100, 6, now_);
  EXPECT_THAT(told(health_.on(blind, now_)), IsEmpty()) << "the script may report a step soon";
  now_ += 30s;
  EXPECT_THAT(
      told(health_.on(blind, now_)),
      ElementsAre(testing::HasSubstr("--hang-limit has no effect until the script reports its steps")));
  EXPECT_THAT(told(health_.on(blind, now_)), IsEmpty());
}

TEST_F(WorkerHealthTest, AProgramsOwnGpuFaultIsReportedAndDoesNotExplainAnEnd) {
  EXPECT_THAT(told(health_.on({fault(7, XidClass::kProgram)}, now_)),
              ElementsAre("notice: rank 1: XID 1: it broke (GPU 7)"));
  wire::WorkerExited exited;
  health_.ended(Rank(1), exited);
  EXPECT_EQ(exited.gpu_fault, "");
}

TEST_F(WorkerHealthTest, TheFirstFaultOfAGpuExplainsItsWorkersEnd) {
  health_.on({fault(6, XidClass::kHardware)}, now_);
  health_.on({{6, {XidClass::kHardware, "XID 2: what followed"}}}, now_);
  wire::WorkerExited exited;
  health_.ended(Rank(0), exited);
  EXPECT_EQ(exited.gpu_fault, "XID 1: it broke (GPU 6)");
}

TEST_F(WorkerHealthTest, ALostGpuStopsTheAttempt) {
  EXPECT_THAT(told(health_.on({fault(6, XidClass::kLost)}, now_)),
              ElementsAre("notice: rank 0: XID 1: it broke (GPU 6)",
                          "stalled 0: has lost its GPU: XID 1: it broke (GPU 6)"));
}

TEST_F(WorkerHealthTest, AFaultOfAnUnusedGpuIsIgnored) {
  EXPECT_THAT(health_.on({fault(5, XidClass::kLost)}, now_), IsEmpty());
}

TEST_F(WorkerHealthTest, AWorkersAbilitiesAndAddressAreThoseOfItsNewestReport) {
  health_.on(hello(Rank(0), "stacks preemption"), "first", now_);
  EXPECT_TRUE(health_.workers().at(Rank(0)).writes_stacks);
  EXPECT_TRUE(health_.workers().at(Rank(0)).can_be_preempted);
  health_.on(hello(Rank(0), "stack"), "second", now_);
  EXPECT_FALSE(health_.workers().at(Rank(0)).writes_stacks);
  EXPECT_EQ(health_.workers().at(Rank(0)).address, "second");
  health_.on(hello(Rank(0), "stacks"), "", now_);
  EXPECT_EQ(health_.workers().at(Rank(0)).address, "second");
}

TEST_F(WorkerHealthTest, AReportOfAnEndedRankChangesNothing) {
  wire::WorkerExited exited;
  health_.ended(Rank(0), exited);
  health_.on(hello(Rank(0), "stacks"), "late", now_);
  EXPECT_THAT(health_.pids(), ElementsAre(std::pair(Rank(1), 101)));
}

TEST_F(WorkerHealthTest, TimeWhileOutputWaitsDoesNotCountAsSilence) {
  Report beat = hello(Rank(0), "");
  beat.message.kind = wire::ReportKind::kHeartbeat;
  health_.on(beat, "", now_);
  for (int i = 0; i < 20; ++i) EXPECT_THAT(look(true), IsEmpty());
  std::vector<std::string> told;
  for (int i = 0; i < 6; ++i) std::ranges::copy(look(), std::back_inserter(told));
  EXPECT_THAT(told,
              ElementsAre("stalled 0: sent no heartbeat for 2 s", "stalled 0: sent no heartbeat for 6 s"));
}

TEST_F(WorkerHealthTest, AWorkerThatIsToldToStopNeedNotMakeProgress) {
  states_ = {{Rank(0), ProcessState::kStopped}, {Rank(1), ProcessState::kStopped}};
  health_.told_to_stop(Rank(0));
  std::vector<std::string> told;
  for (int i = 0; i < 6; ++i) std::ranges::copy(look(), std::back_inserter(told));
  EXPECT_THAT(told, ElementsAre("stalled 1: is stopped (SIGSTOP) for 3 s"));
}

}  // namespace
}  // namespace muster::agent
