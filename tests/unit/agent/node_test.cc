#include <cerrno>
#include <csignal>
#include <gmock/gmock.h>

#include "tests/unit/agent/node_fixture.h"

namespace muster::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(NodeTest, StartsWorkersOneAfterTheOtherAndSaysSoOnce) {
  on(Welcomed{job()});
  on(AttemptRequested{Attempt(1), plan(2)});
  EXPECT_EQ(decided<OpenAttempt>().size(), 1U);
  on(AttemptOpened{1234});
  ASSERT_EQ(sent<wire::AttemptPrepared>().size(), 1U);
  EXPECT_EQ(sent<wire::AttemptPrepared>()[0].store_port, 1234);
  on(StartRequested{Attempt(1), {}});
  ASSERT_EQ(decided<StartWorker>().size(), 1U);
  on(WorkerStarted{LocalRank(0), 100});
  EXPECT_THAT(sent<wire::WorkersStarted>(), IsEmpty());
  ASSERT_EQ(decided<StartWorker>().size(), 1U);
  EXPECT_EQ(decided<StartWorker>()[0].local_rank, LocalRank(1));
  on(WorkerStarted{LocalRank(1), 101});
  ASSERT_EQ(sent<wire::WorkersStarted>().size(), 1U);
  EXPECT_THAT(sent<wire::WorkersStarted>()[0].pids, ElementsAre(100, 101));
}

TEST_F(NodeTest, SaysGoneOnlyWhenTheLastLeftoverIsGone) {
  run_attempt(1, 2);
  on(WorkerEnded{LocalRank(1), {}});
  ASSERT_EQ(sent<wire::WorkerExited>().size(), 1U);
  EXPECT_EQ(sent<wire::WorkerExited>()[0].rank, Rank(5));
  EXPECT_EQ(sent<wire::WorkerExited>()[0].pid, 101);
  EXPECT_THAT(decided<KillLeftovers>(), IsEmpty());
  on(WorkerEnded{LocalRank(0), {}});
  EXPECT_EQ(decided<KillLeftovers>().size(), 1U);
  EXPECT_THAT(sent<wire::WorkersGone>(), IsEmpty());
  on(LeftoversGone{});
  EXPECT_EQ(decided<CloseAttempt>().size(), 1U);
  EXPECT_EQ(sent<wire::WorkersGone>().size(), 1U);
}

TEST_F(NodeTest, MessagesCarryTheirAttemptsNumberEvenWhileTheNextOneWaits) {
  run_attempt(1, 1);
  on(AttemptRequested{Attempt(2), plan(1)});
  on(WorkerEnded{LocalRank(0), {}});
  on(LeftoversGone{});
  EXPECT_EQ(decided<OpenAttempt>().size(), 1U);
  ASSERT_EQ(sent<wire::WorkersGone>().size(), 1U);
  EXPECT_EQ(decided<Send>()[0].attempt, Attempt(1));
}

TEST_F(NodeTest, StopsWithASignalThenKillsWhenTheGraceIsOver) {
  run_attempt(1, 2);
  on(stop(1, 5s));
  EXPECT_THAT(signals(), ElementsAre("100:15", "101:15"));
  on(WorkerEnded{LocalRank(0), {}});
  EXPECT_TRUE(sent<wire::WorkerExited>()[0].after_stop);
  advance(4999ms);
  EXPECT_THAT(signals(), IsEmpty());
  advance(1ms);
  EXPECT_THAT(signals(), ElementsAre("101:9"));
  on(WorkerEnded{LocalRank(1), {}});
  EXPECT_TRUE(sent<wire::WorkerExited>()[0].after_stop);
}

TEST_F(NodeTest, AWorkerThatIgnoresTheStopsSignalGetsTermWithinTheGrace) {
  run_attempt(1, 2);
  on(StopRequested{Attempt(1), {SIGINT, Duration(10s).count()}});
  EXPECT_EQ(signals(), (std::vector<std::string>{"100:2", "101:2"}));
  on(WorkerEnded{LocalRank(0), {}});
  advance(7900ms);
  EXPECT_TRUE(signals().empty()) << "a worker that saves has time for it";
  advance(100ms);
  EXPECT_EQ(signals(), std::vector<std::string>{"101:15"});
  advance(1900ms);
  EXPECT_TRUE(signals().empty());
  advance(100ms);
  EXPECT_EQ(signals(), std::vector<std::string>{"101:9"});
}

TEST_F(NodeTest, AnExitBeforeTheStopIsNotAfterIt) {
  run_attempt(1, 2);
  on(WorkerEnded{LocalRank(0), {}});
  EXPECT_FALSE(sent<wire::WorkerExited>()[0].after_stop);
}

TEST_F(NodeTest, ASecondStopShortensTheGraceButNeverLengthensIt) {
  run_attempt(1, 1);
  on(stop(1, 60s));
  on(stop(1, 2s));
  EXPECT_THAT(signals(), IsEmpty());
  on(stop(1, 90s));
  advance(2s);
  EXPECT_THAT(signals(), ElementsAre("100:9"));
}

TEST_F(NodeTest, AStopWithoutGraceKillsAtOnce) {
  run_attempt(1, 2);
  on(stop(1, 60s));
  on(stop(1, 0s));
  EXPECT_THAT(signals(), ElementsAre("100:9", "101:9"));
}

TEST_F(NodeTest, AnswersAStopAlthoughNothingRuns) {
  on(Welcomed{job()});
  on(stop(0, 1s));
  EXPECT_EQ(sent<wire::WorkersGone>().size(), 1U);
  on(AttemptRequested{Attempt(1), plan(1)});
  on(AttemptOpened{});
  on(stop(1, 1s));
  EXPECT_EQ(decided<CloseAttempt>().size(), 1U);
  EXPECT_EQ(sent<wire::WorkersGone>().size(), 1U);
}

TEST_F(NodeTest, IgnoresOrdersForAnotherAttempt) {
  run_attempt(2, 1);
  on(stop(1, 0s));
  EXPECT_THAT(decided_, IsEmpty());
  on(AttemptRequested{Attempt(2), plan(1)});
  EXPECT_THAT(decided_, IsEmpty());
}

TEST_F(NodeTest, ARefusedAttemptIsClosedAndTheNextOneCanStart) {
  on(Welcomed{job()});
  on(AttemptRequested{Attempt(1), plan(1)});
  on(AttemptNotOpened{{127, "nothing there"}});
  EXPECT_EQ(decided<CloseAttempt>().size(), 1U);
  ASSERT_EQ(sent<wire::AttemptRefused>().size(), 1U);
  EXPECT_EQ(sent<wire::AttemptRefused>()[0].exit_code, 127);
  on(AttemptRequested{Attempt(2), plan(1)});
  EXPECT_EQ(decided<OpenAttempt>().size(), 1U);
}

TEST_F(NodeTest, RefusesAnImpossibleNumberOfWorkers) {
  on(Welcomed{job()});
  on(AttemptRequested{Attempt(1), plan(0)});
  EXPECT_THAT(decided<OpenAttempt>(), IsEmpty());
  EXPECT_EQ(sent<wire::AttemptRefused>().size(), 1U);
}

TEST_F(NodeTest, AWorkerThatCannotBeExecutedRefusesTheAttemptAndKillsTheEarlierOnes) {
  on(Welcomed{job()});
  on(AttemptRequested{Attempt(1), plan(3)});
  on(AttemptOpened{});
  on(StartRequested{Attempt(1), {}});
  on(WorkerStarted{LocalRank(0), 100});
  on(WorkerNotStarted{LocalRank(1), {126, "wrong format"}});
  EXPECT_EQ(sent<wire::AttemptRefused>()[0].exit_code, 126);
  EXPECT_THAT(signals(), ElementsAre("100:9"));
  on(WorkerEnded{LocalRank(0), {}});
  EXPECT_EQ(decided<KillLeftovers>().size(), 1U);
  on(LeftoversGone{});
  EXPECT_EQ(sent<wire::WorkersGone>().size(), 1U);
}

TEST_F(NodeTest, ANewerAttemptWaitsUntilTheOlderOneIsGone) {
  run_attempt(1, 1);
  on(AttemptRequested{Attempt(2), plan(1)});
  EXPECT_THAT(signals(), ElementsAre("100:9"));
  EXPECT_THAT(decided<OpenAttempt>(), IsEmpty());
  on(WorkerEnded{LocalRank(0), {}});
  on(LeftoversGone{});
  ASSERT_EQ(decided<OpenAttempt>().size(), 1U);
  EXPECT_EQ(decided<OpenAttempt>()[0].attempt, Attempt(2));
}

TEST_F(NodeTest, LeavesAfterItsWorkers) {
  run_attempt(1, 1);
  on(LeaveRequested{"the job is over"});
  EXPECT_THAT(signals(), ElementsAre("100:15"));
  EXPECT_THAT(decided<Quit>(), IsEmpty());
  advance(3s);
  EXPECT_THAT(signals(), ElementsAre("100:9"));
  on(WorkerEnded{LocalRank(0), {}});
  on(LeftoversGone{});
  ASSERT_EQ(decided<Quit>().size(), 1U);
  EXPECT_EQ(decided<Quit>()[0].exit_code, 0);
  EXPECT_EQ(node_.next_deadline(), std::nullopt);
}

TEST_F(NodeTest, LeavesAtOnceWhenNothingRuns) {
  on(Welcomed{job()});
  on(LeaveRequested{"the job is over"});
  EXPECT_EQ(decided<Quit>().size(), 1U);
}

TEST_F(NodeTest, LeavesWhenTheLauncherHasTheLogs) {
  on(Welcomed{job()});
  on(LeaveRequested{"the job is over", /*launcher_waits=*/true});
  EXPECT_THAT(decided<Quit>(), IsEmpty());
  on(LogsSent{});
  EXPECT_EQ(decided<Quit>().size(), 1U);
}

TEST_F(NodeTest, LeavesWithoutSendingLogsIfTheLauncherIsGoneOrSilentOrASignalComes) {
  for (const int end : {0, 1, 2}) {
    node_ = Node(now_);
    on(Welcomed{job()});
    on(LeaveRequested{"the job is over", /*launcher_waits=*/true});
    EXPECT_THAT(decided<Quit>(), IsEmpty());
    if (end == 0) on(LauncherClosed{});
    if (end == 1) on(LeaveRequested{"a signal"});
    if (end == 2) advance(job().limits.silence_limit);
    EXPECT_EQ(decided<Quit>().size(), 1U) << end;
  }
}

class NodeWithHeldMemory : public NodeTest {
 protected:
  static wire::JobSpec job() {
    wire::JobSpec job = NodeTest::job();
    job.limits.memory_tier_bytes = 1 << 20;
    return job;
  }
  void end_worker(std::int32_t exit_code) {
    wire::WorkerExited exited;
    exited.exit_code = exit_code;
    on(WorkerEnded{LocalRank(0), exited});
  }
  // Runs an attempt whose worker ends with this exit code.
  void run_until(std::int32_t exit_code) {
    run_attempt(1, 1);
    on(Welcomed{job()});
    end_worker(exit_code);
    on(LeftoversGone{});
  }
};

TEST_F(NodeWithHeldMemory, MemoryOfFailedWorkersIsWrittenBeforeTheNodeLeaves) {
  run_until(1);
  EXPECT_THAT(decided<WriteMemoryOut>(), IsEmpty()) << "another attempt may restore it";
  on(LeaveRequested{"the job is over", /*launcher_waits=*/true});
  EXPECT_EQ(decided<WriteMemoryOut>().size(), 1U);
  on(LogsSent{});
  EXPECT_THAT(decided<WriteMemoryOut>(), IsEmpty()) << "once";
  EXPECT_THAT(decided<Quit>(), IsEmpty());
  on(MemoryWritten{"step 7 is a checkpoint now", 7});
  ASSERT_EQ(sent<wire::AgentRemark>().size(), 1U);
  EXPECT_EQ(sent<wire::AgentRemark>()[0].text, "step 7 is a checkpoint now");
  EXPECT_EQ(sent<wire::AgentRemark>()[0].saved_step, 7U);
  EXPECT_EQ(decided<Quit>().size(), 1U);
}

TEST_F(NodeWithHeldMemory, IsAlsoWrittenIfTheNextAttemptsWorkerCannotBeExecuted) {
  run_until(1);
  on(AttemptRequested{Attempt(2), plan(1)});
  on(AttemptOpened{});
  on(StartRequested{Attempt(2), {}});
  on(WorkerNotStarted{LocalRank(0), wire::AttemptRefused{126, "cannot execute train"}});
  on(LeftoversGone{});
  on(LauncherClosed{});
  EXPECT_EQ(decided<WriteMemoryOut>().size(), 1U);
}

TEST_F(NodeWithHeldMemory, NothingIsWrittenWhileWorkersMayStillWriteIt) {
  run_attempt(1, 1);
  on(Welcomed{job()});
  on(LeaveRequested{"the job is over", /*launcher_waits=*/true});
  on(LogsSent{});
  EXPECT_THAT(decided<WriteMemoryOut>(), IsEmpty());
  end_worker(1);
  EXPECT_THAT(decided<WriteMemoryOut>(), IsEmpty());
  on(LeftoversGone{});
  EXPECT_EQ(decided<WriteMemoryOut>().size(), 1U);
  EXPECT_THAT(decided<Quit>(), IsEmpty());
}

TEST_F(NodeWithHeldMemory, NothingIsWrittenIfTheWorkersFinished) {
  run_until(0);
  on(LeaveRequested{"the job is over", /*launcher_waits=*/true});
  on(LogsSent{});
  EXPECT_THAT(decided<WriteMemoryOut>(), IsEmpty());
  EXPECT_EQ(decided<Quit>().size(), 1U);
}

// Writing continues while the process ends.
TEST_F(NodeWithHeldMemory, LeavesWithoutWaitingIfTheLauncherIsGone) {
  run_until(1);
  on(LauncherClosed{});
  EXPECT_EQ(decided<WriteMemoryOut>().size(), 1U);
  EXPECT_EQ(decided<Quit>().size(), 1U);
}

TEST_F(NodeTest, WhenTheLauncherIsGoneWorkersGoOnForTheControllerGraceAndAreThenStopped) {
  run_attempt(1, 1);
  on(LauncherClosed{});
  EXPECT_THAT(decided_, IsEmpty());
  advance(29s);
  EXPECT_THAT(decided_, IsEmpty());
  advance(1s);
  EXPECT_THAT(signals(), ElementsAre("100:15"));
  advance(3s);
  EXPECT_THAT(signals(), ElementsAre("100:9"));
  on(WorkerEnded{LocalRank(0), {}});
  on(LeftoversGone{});
  ASSERT_EQ(decided<Quit>().size(), 1U);
  EXPECT_NE(decided<Quit>()[0].exit_code, 0);
}

TEST_F(NodeTest, QuitsWhenTheLauncherIsGoneAndTheWorkersEndByThemselves) {
  run_attempt(1, 1);
  on(LauncherClosed{});
  on(WorkerEnded{LocalRank(0), {}});
  on(LeftoversGone{});
  EXPECT_EQ(decided<Quit>().size(), 1U);
}

TEST_F(NodeTest, QuitsAtOnceWhenTheLauncherIsGoneAndNothingRuns) {
  on(LauncherClosed{});
  EXPECT_EQ(decided<Quit>().size(), 1U);
}

TEST_F(NodeTest, ASilentLauncherIsGoneAfterTheLimitAndTheGrace) {
  run_attempt(1, 1);
  advance(39s);
  EXPECT_THAT(decided_, IsEmpty());
  advance(1s);
  EXPECT_THAT(signals(), ElementsAre("100:15"));
}

TEST_F(NodeTest, SilenceThatEndsIsForgotten) {
  run_attempt(1, 1);
  advance(39s);
  on(LauncherHeard{});
  advance(39s);
  EXPECT_THAT(decided_, IsEmpty());
  advance(1s);
  EXPECT_THAT(signals(), ElementsAre("100:15"));
}

TEST_F(NodeTest, ALauncherThatNeverSaysWelcomeIsGone) {
  advance(29s);
  EXPECT_THAT(decided_, IsEmpty());
  advance(1s);
  EXPECT_EQ(decided<Quit>().size(), 1U);
}

TEST_F(NodeTest, NamesAWorkerThatSurvivesBeingKilled) {
  run_attempt(1, 2);
  on(stop(1, 0s));
  on(WorkerEnded{LocalRank(0), {}});
  advance(2s);
  EXPECT_THAT(sent<wire::WorkerUnkillable>(), IsEmpty());
  advance(1s);
  ASSERT_EQ(sent<wire::WorkerUnkillable>().size(), 1U);
  EXPECT_EQ(sent<wire::WorkerUnkillable>()[0].rank, Rank(5));
  EXPECT_EQ(sent<wire::WorkerUnkillable>()[0].pid, 101);
  advance(10s);
  EXPECT_THAT(sent<wire::WorkerUnkillable>(), IsEmpty()) << "it is reported once";
  on(WorkerEnded{LocalRank(1), {}});
  on(LeftoversGone{});
  EXPECT_EQ(sent<wire::WorkersGone>().size(), 1U) << "it could be killed after all";
}

TEST_F(NodeTest, NamesLeftoversThatSurviveBeingKilledAndDoesNotWaitForThem) {
  run_attempt(1, 1);
  on(WorkerEnded{LocalRank(0), {}});
  EXPECT_EQ(decided<KillLeftovers>().size(), 1U);
  for (int look = 0; look < 5; ++look) {
    on(LauncherHeard{});
    advance(500ms);
    EXPECT_EQ(decided<KillLeftovers>().size(), 1U) << "an end may have been missed";
    EXPECT_THAT(decided<NameLeftovers>(), IsEmpty());
  }
  advance(500ms);
  ASSERT_EQ(decided<NameLeftovers>().size(), 1U);
  on(LeftoversNamed{{{.pid = 4711, .name = "sudo", .uid = 0, .error = EPERM}}});
  ASSERT_EQ(sent<wire::LeftoversUnkillable>().size(), 1U);
  EXPECT_EQ(sent<wire::LeftoversUnkillable>()[0].left.at(0).pid, 4711);
  EXPECT_EQ(decided<KillLeftovers>().size(), 1U) << "for leftovers that are not named yet";
  EXPECT_THAT(sent<wire::WorkersGone>(), IsEmpty()) << "log files are still written";
  on(LeftoversGone{});
  EXPECT_EQ(sent<wire::WorkersGone>().size(), 1U);
  on(AttemptRequested{Attempt(2), plan(1)});
  EXPECT_EQ(decided<OpenAttempt>().size(), 1U);
}

TEST_F(NodeTest, ANodeThatLeavesDoesNotWaitForAWorkerThatSurvivesBeingKilled) {
  run_attempt(1, 1);
  on(LauncherClosed{});
  advance(30s);
  EXPECT_THAT(signals(), ElementsAre("100:15"));
  advance(3s);
  EXPECT_THAT(signals(), ElementsAre("100:9"));
  advance(3s);
  EXPECT_EQ(sent<wire::WorkerUnkillable>().size(), 1U);
  ASSERT_EQ(decided<Quit>().size(), 1U);
  EXPECT_TRUE(decided<Quit>()[0].leaves_processes) << "the other ranks, which have ended, may have left some";
}

TEST_F(NodeTest, WritesTheLogsEvenIfLeftoversAreUnknown) {
  run_attempt(1, 1);
  on(WorkerEnded{LocalRank(0), {}});
  on(LauncherHeard{});
  advance(3s);
  ASSERT_EQ(decided<NameLeftovers>().size(), 1U);
  on(LeftoversNamed{});
  ASSERT_EQ(sent<wire::LeftoversUnkillable>().size(), 1U);
  EXPECT_EQ(decided<FinishLogs>().size(), 1U);
  on(LeftoversGone{});
  EXPECT_EQ(sent<wire::WorkersGone>().size(), 1U);
}

TEST_F(NodeTest, ANewerAttemptReplacesOneThatHasNotStarted) {
  for (const bool warming : {false, true}) {
    node_ = Node(now_);
    on(Welcomed{job()});
    on(AttemptRequested{Attempt(1), plan(1)});
    on(AttemptOpened{.template_loads = warming});
    if (warming) on(StartRequested{Attempt(1), {}});
    on(AttemptRequested{Attempt(2), plan(2)});
    ASSERT_EQ(decided_.size(), 2U);
    EXPECT_TRUE(std::holds_alternative<CloseAttempt>(decided_[0]));
    ASSERT_EQ(decided<OpenAttempt>().size(), 1U);
    EXPECT_EQ(decided<OpenAttempt>()[0].attempt, Attempt(2));
    on(AttemptOpened{});
    EXPECT_EQ(sent<wire::AttemptPrepared>().size(), 1U);
    on(StartRequested{Attempt(1), {}});
    EXPECT_THAT(decided_, IsEmpty());
    on(StartRequested{Attempt(2), {}});
    EXPECT_EQ(decided<StartWorker>().size(), 1U);
  }
}

TEST_F(NodeTest, PassesASignalOnToWorkersThatRun) {
  run_attempt(1, 3);
  on(WorkerEnded{LocalRank(1), {}});
  on(SignalRequested{Attempt(1), SIGUSR1});
  EXPECT_THAT(signals(), ElementsAre("100:10", "102:10"));
  on(SignalRequested{Attempt(2), SIGUSR1});
  EXPECT_THAT(signals(), IsEmpty()) << "meant for another attempt";
  on(stop(1, 3s));
  on(SignalRequested{Attempt(1), SIGUSR1});
  EXPECT_THAT(signals(), IsEmpty()) << "they have been told to stop";
}

TEST_F(NodeTest, AStopWhileLeftoversAreKilledIsAnsweredOnce) {
  run_attempt(1, 1);
  on(WorkerEnded{LocalRank(0), {}});
  on(stop(1, 1s));
  EXPECT_THAT(decided_, IsEmpty());
  on(LeftoversGone{});
  EXPECT_EQ(sent<wire::WorkersGone>().size(), 1U);
}

}  // namespace
}  // namespace muster::agent
