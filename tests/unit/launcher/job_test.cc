#include "tests/unit/launcher/job_fixture.h"

namespace muster::launcher {
namespace {

TEST_F(JobTest, StartsAnAgentOnEveryNode) {
  happen(Began{});
  ASSERT_EQ(decided<StartAgent>().size(), 2U);
  EXPECT_EQ(job.phase(), Phase::kGathering);
}

TEST_F(JobTest, EveryDecisionHasAReason) {
  run();
  worker_exits(2, 3);
  ASSERT_FALSE(last.empty());
  EXPECT_TRUE(std::ranges::none_of(last, [](const Decision& decision) { return decision.reason.empty(); }));
}

TEST_F(JobTest, BeginsAnAttemptWhenAllAgentsAreThere) {
  happen(Began{});
  greet(0);
  EXPECT_TRUE(decided<BeginAttempt>().empty());
  greet(1);
  EXPECT_EQ(decided<BeginAttempt>().size(), 1U);
  begin();
  const auto prepared = sent<wire::PrepareAttempt>();
  ASSERT_EQ(prepared.size(), 2U);
  EXPECT_TRUE(prepared[0].second.host_store);
  EXPECT_FALSE(prepared[1].second.host_store);
  EXPECT_EQ(prepared[1].second.first_rank, Rank(2));
}

TEST_F(JobTest, StartsWorkersWithTheStoreOfTheFirstNodeWhenAllArePrepared) {
  prepare();
  said(0, wire::AttemptPrepared{4711});
  EXPECT_TRUE(sent<wire::StartWorkers>().empty());
  said(1, wire::AttemptPrepared{});
  ASSERT_EQ(sent<wire::StartWorkers>().size(), 2U);
  EXPECT_EQ(sent<wire::StartWorkers>()[1].second.master_port, 4711);
}

TEST_F(JobTest, SaysOnceWhyRanksAreNotStartedWarm) {
  run();
  said(0, wire::WorkersStarted{{1, 2}, 2, ""});
  EXPECT_TRUE(decided<Tell>().empty());
  said(1, wire::WorkersStarted{{1, 2}, 0, "it has 2 threads"});
  ASSERT_EQ(decided<Tell>().size(), 1U);
  EXPECT_EQ(decided<Tell>()[0].text, "node1 executes its ranks instead of forking them: it has 2 threads");
  said(0, wire::WorkersStarted{{1, 2}, 0, "it has 2 threads"});
  EXPECT_TRUE(decided<Tell>().empty());
}

TEST_F(JobTest, SucceedsWhenEveryRankExitsWithZero) {
  run();
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0);
  empty_all();
  EXPECT_EQ(sent<wire::Leave>().size(), 2U);
  agents_leave();
  EXPECT_EQ(decided<Finish>().size(), 1U);
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST_F(JobTest, DoesNotSucceedIfARankNeverReported) {
  run();
  for (int rank = 0; rank < 3; ++rank) worker_exits(rank, 0);
  empty_all();
  EXPECT_EQ(job.phase(), Phase::kBeginning) << "it is repeated";
  ASSERT_TRUE(job.history().back().verdict);
  EXPECT_EQ(job.history().back().verdict->exit_code, kExitInternal);
}

TEST_F(JobTest, StopsAllWorkersWhenOneFails) {
  run();
  worker_exits(2, 3);
  const auto stops = sent<wire::StopWorkers>();
  ASSERT_EQ(stops.size(), 2U);
  EXPECT_EQ(stops[0].second.signal, SIGTERM);
  EXPECT_EQ(std::chrono::nanoseconds(stops[0].second.grace_ns), 10s);
}

class JobWhoseRankMissesAPeer : public JobTest {
 protected:
  void misses_a_peer(int rank) {
    wire::WorkerExited message = exited(rank, 1);
    message.at_ns = std::chrono::nanoseconds(now.time_since_epoch()).count();
    message.last_lines = {"Connection closed by peer [127.0.0.1]:4711"};
    said(rank / 2, message);
  }
};

TEST_F(JobWhoseRankMissesAPeer, LetsThatPeerEndFirst) {
  run();
  misses_a_peer(0);
  misses_a_peer(1);
  EXPECT_TRUE(sent<wire::StopWorkers>().empty());
  now += 200ms;
  worker_exits(2, 3);
  EXPECT_EQ(sent<wire::StopWorkers>().size(), 2U);
  empty_all();
  begin();
  EXPECT_THAT(told(), HasSubstr("rank 2 (node1) exited with code 3"));
}

TEST_F(JobWhoseRankMissesAPeer, StopsTheOthersIfNoOtherRankFails) {
  run();
  misses_a_peer(0);
  ASSERT_TRUE(next_deadline());
  now += 100ms;
  misses_a_peer(1);  // does not extend the grace
  now += 900ms;
  EXPECT_LE(*next_deadline(), now);
  happen(TimePassed{});
  EXPECT_EQ(sent<wire::StopWorkers>().size(), 2U);
}

TEST_F(JobWhoseRankMissesAPeer, EndsWhenAllHaveEnded) {
  run();
  misses_a_peer(0);
  for (const int rank : {1, 2, 3}) worker_exits(rank, 0);
  empty_all();
  begin();
  EXPECT_THAT(told(), HasSubstr("rank 1 exited with code 0 while the others still trained; attempt 2"));
}

TEST_F(JobWhoseRankMissesAPeer, ANoticeMeanwhileDoesNotExtendTheWait) {
  run();
  for (int rank = 0; rank < 4; ++rank) reported(rank, "hello", 0, "preemption");
  misses_a_peer(0);
  const auto deadline = next_deadline();
  happen(Interrupted{SIGTERM});
  EXPECT_EQ(next_deadline(), deadline);
  EXPECT_TRUE(sent<wire::Preempt>().empty()) << "a rank that lost a peer cannot agree on a step";
  now = *deadline;
  happen(TimePassed{});
  EXPECT_EQ(sent<wire::StopWorkers>().size(), 2U);
  empty_all();
  happen(CheckpointFound{});
  EXPECT_EQ(job.verdict().exit_code, 143) << "too late for a restart";
  EXPECT_EQ(job.verdict().rank, Rank(0));
}

TEST_F(JobTest, RestartsOnceEveryWorkerIsGone) {
  run();
  worker_exits(2, 3);
  empty(0);
  EXPECT_EQ(job.phase(), Phase::kStopping);
  empty(1);
  EXPECT_EQ(decided<BeginAttempt>().size(), 1U);
  EXPECT_EQ(job.restart_count(), 1);
  happen(AttemptBegun{Attempt(7), 40});
  EXPECT_THAT(decided<Tell>().at(0).text,
              HasSubstr("rank 2 (node1) exited with code 3; attempt 7 resumes from step 40"));
  EXPECT_EQ(sent<wire::PrepareAttempt>().at(0).second.restart_count, 1);
  start_workers();
  EXPECT_EQ(sent<wire::StartWorkers>().at(0).second.resume_step, 40U);
}

TEST_F(JobTest, SaysAtWhichStepTheWorkerFailed) {
  run();
  said(1, wire::WorkerReported{Rank(3), wire::ReportKind::kStep, 57, ""});
  worker_exits(2, 0, SIGKILL);
  empty_all();
  happen(AttemptBegun{Attempt(2), 40});
  EXPECT_THAT(decided<Tell>().at(0).text,
              HasSubstr("rank 2 (node1) was killed by SIGKILL at step 57; attempt 2 resumes from step 40"));
}

TEST_F(JobTest, NamesNoStepOfAWorkerThatFailedBeforeItsFirst) {
  run();
  reported(2, "heartbeat", -1);
  worker_exits(2, 0, SIGKILL);
  empty_all();
  begin();
  EXPECT_THAT(told(), HasSubstr("rank 2 (node1) was killed by SIGKILL; attempt 2"));
}

TEST_F(JobTest, SaysTheStepOfTheWorkerThatFailedAndNotOfOthers) {
  run();
  reported(2, "step", 57);
  reported(3, "step", 58);
  worker_exits(2, 0, SIGKILL);
  reported(0, "heartbeat", 61);
  empty_all();
  begin();
  EXPECT_THAT(told(), HasSubstr("rank 2 (node1) was killed by SIGKILL at step 57; attempt 2"));
}

TEST_F(JobTest, EndsWithTheCulpritsCodeWhenRestartsAreUsedUp) {
  run();
  worker_exits(2, 3);
  empty_all();
  begin();
  start_workers();
  worker_exits(1, 5);
  empty_all();
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, 5);
}

TEST_F(JobWithoutRestarts, BlamesTheEarliestByTimeAndNotByArrival) {
  run();
  const TimePoint first = now;
  now += 5ms;
  worker_exits(0, 1);
  worker_exits(3, 9, 0, false, first);
  empty_all();
  EXPECT_EQ(job.verdict().culprit->rank, Rank(3));
}

TEST_F(JobWithoutRestarts, BlamesTheLowestRankInATie) {
  run();
  worker_exits(3, 9);
  worker_exits(1, 4);
  empty_all();
  EXPECT_EQ(job.verdict().culprit->rank, Rank(1));
}

TEST_F(JobWithoutRestarts, DoesNotBlameRanksThatItStopped) {
  run();
  worker_exits(2, 3);
  worker_exits(0, 0, SIGTERM, true, now - 1s);
  empty_all();
  EXPECT_EQ(job.verdict().culprit->rank, Rank(2));
}

TEST_F(JobWithoutRestarts, IgnoresARankOfAnotherNode) {
  run();
  said(0, exited(3, 1));
  EXPECT_EQ(job.phase(), Phase::kRunning);
}

TEST_F(JobTest, IgnoresMessagesOfAnotherAttempt) {
  run();
  said(0, Attempt(0), exited(0, 1));
  said(0, Attempt(9), wire::WorkersGone{});
  EXPECT_EQ(job.phase(), Phase::kRunning);
  EXPECT_TRUE(last.empty());
}

TEST_F(JobTest, ReplacesALostAgentWhenItsProcessesAreGone) {
  run();
  end_agent(1, "its agent was killed by SIGKILL");
  EXPECT_EQ(sent<wire::StopWorkers>().size(), 1U);
  empty(0);
  EXPECT_EQ(job.phase(), Phase::kStopping) << "processes of node 1 may still be alive";
  happen(LeftoversSeen{});
  ASSERT_EQ(decided<StartAgent>().size(), 1U);
  EXPECT_EQ(decided<StartAgent>()[0].agent.node, NodeId(1));
  greet(1);
  EXPECT_EQ(decided<BeginAttempt>().size(), 1U);
}

TEST_F(JobWithoutRestarts, EndsWith69WhenAnAgentIsLostForGood) {
  run();
  end_agent(1, "its agent was killed by SIGKILL");
  empty(0);
  happen(LeftoversSeen{});
  EXPECT_EQ(job.verdict().exit_code, 69);
  EXPECT_EQ(job.verdict().cause, "node1 was lost: its agent was killed by SIGKILL");
}

TEST_F(JobTest, HandlesALostAgentInEveryPhase) {
  happen(Began{});
  end_agent(0, "died");
  EXPECT_EQ(job.phase(), Phase::kStopping);
  happen(LeftoversSeen{});
  EXPECT_EQ(job.phase(), Phase::kGathering);
  EXPECT_EQ(job.restart_count(), 1);
}

TEST_F(JobTest, AnAgentLostWhilePreparingCostsARestart) {
  prepare();
  end_agent(0, "died");
  happen(LeftoversSeen{});
  EXPECT_EQ(job.phase(), Phase::kGathering);
  EXPECT_EQ(job.restart_count(), 1);
}

TEST_F(JobTest, AnAgentLostWhileStoppingIsReplacedWithoutAnotherRestart) {
  run();
  worker_exits(2, 3);
  end_agent(0, "died");
  empty(1);
  happen(LeftoversSeen{});
  EXPECT_EQ(decided<StartAgent>().size(), 1U);
  EXPECT_EQ(job.restart_count(), 1);
}

TEST_F(JobTest, KillsAnAgentThatIsSilent) {
  run();
  now += 1s;
  said(0, wire::Pong{});
  ASSERT_EQ(next_deadline(), now + 1s) << "node 1 was heard a second earlier";
  now += 1s;
  happen(TimePassed{});
  ASSERT_EQ(decided<KillAgent>().size(), 1U);
  EXPECT_EQ(decided<KillAgent>()[0].agent.node, NodeId(1));
  EXPECT_EQ(job.phase(), Phase::kStopping);
}

TEST_F(JobTest, BlamesNoNodeForSilenceWhileTheLauncherSlept) {
  run();
  now += 60s;
  happen(TimePassed{});
  EXPECT_TRUE(decided<KillAgent>().empty());
  EXPECT_EQ(next_deadline(), now + 2s);
}

TEST_F(JobTest, DoesNotRestartAProgramThatCannotBeExecuted) {
  prepare();
  said(1, wire::AttemptRefused{127, "train: not found"});
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, 127);
  EXPECT_THAT(job.verdict().cause, HasSubstr("node1: train: not found"));
}

TEST_F(JobTest, StopsTheOthersWhenOneNodeCannotExecute) {
  run();
  said(1, wire::AttemptRefused{126, "wrong format"});
  EXPECT_EQ(sent<wire::StopWorkers>().size(), 2U);
  empty_all();
  EXPECT_EQ(job.verdict().exit_code, 126);
}

TEST_F(JobTest, DoesNotRestartWhenANewerLaunchHasTakenOver) {
  run();
  worker_exits(2, 3);
  empty_all();
  happen(AttemptDenied{AttemptDenied::By::kNewerLaunch, Error(ErrorCode::kFenced, "job x has taken over")});
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_THAT(job.verdict().cause, HasSubstr("taken over"));
  EXPECT_EQ(job.verdict().culprit->rank, Rank(2)) << "the cause of the planned restart";
}

TEST_F(JobTest, AFencedWorkerEndsTheJob) {
  run();
  said(0, wire::WorkerReported{Rank(0), wire::ReportKind::kFenced, 0, "attempt 9 of job x has taken over"});
  EXPECT_EQ(sent<wire::StopWorkers>().size(), 2U);
  worker_exits(0, 1, 0, true);
  empty_all();
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_THAT(job.verdict().cause, HasSubstr("attempt 9"));
}

TEST_F(JobTest, StopsWorkersByTheUsersSignalAndEndsWithItsCode) {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
    anew(two_nodes_of_two(1));
    run();
    happen(Interrupted{signal});
    ASSERT_EQ(sent<wire::StopWorkers>().size(), 2U);
    EXPECT_EQ(sent<wire::StopWorkers>()[0].second.signal, signal);
    for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0, signal, true);
    empty_all();
    EXPECT_EQ(job.phase(), Phase::kLeaving);
    EXPECT_EQ(job.verdict().exit_code, 128 + signal);
  }
}

TEST_F(JobTest, KillsAtTheSecondSignal) {
  run();
  happen(Interrupted{SIGTERM});
  happen(Interrupted{SIGTERM});
  ASSERT_EQ(sent<wire::StopWorkers>().size(), 2U);
  EXPECT_EQ(sent<wire::StopWorkers>()[0].second.signal, SIGKILL);
  EXPECT_EQ(sent<wire::StopWorkers>()[0].second.grace_ns, 0);
  empty_all();
  EXPECT_EQ(job.verdict().exit_code, 143);
}

TEST_F(JobTest, ASignalBeforeWorkersRunEndsAtOnce) {
  happen(Began{});
  greet(0);
  happen(Interrupted{SIGINT});
  EXPECT_EQ(sent<wire::Leave>().size(), 1U);
  EXPECT_EQ(decided<KillAgent>().size(), 1U) << "node 1 has not joined yet";
  EXPECT_EQ(job.verdict().exit_code, 130);
}

TEST_F(JobTest, ASignalWhileAFailedAttemptStopsForbidsTheRestartAndKeepsTheCulprit) {
  run();
  worker_exits(2, 3);
  happen(Interrupted{SIGINT});
  EXPECT_TRUE(sent<wire::StopWorkers>().empty()) << "they are stopping";
  empty_all();
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, 130);
  EXPECT_EQ(job.verdict().origin, "user");
  EXPECT_EQ(job.verdict().cause, "stopped by SIGINT, after rank 2 (node1) exited with code 3");
  ASSERT_TRUE(job.verdict().culprit);
  EXPECT_EQ(job.verdict().culprit->rank, Rank(2));
  EXPECT_EQ(job.history().back().verdict->kind, Verdict::Kind::kExit);
}

TEST_F(JobWithoutRestarts, ASignalWhileTheLastAttemptStopsChangesNothing) {
  run();
  worker_exits(2, 3);
  happen(Interrupted{SIGINT});
  empty_all();
  EXPECT_EQ(job.verdict().exit_code, 3);
  EXPECT_EQ(job.verdict().origin, "worker");
  EXPECT_EQ(job.verdict().culprit->rank, Rank(2));
}

TEST_F(JobTest, ASecondSignalWhileAFailedAttemptStopsKills) {
  run();
  worker_exits(2, 3);
  happen(Interrupted{SIGINT});
  happen(Interrupted{SIGINT});
  ASSERT_EQ(sent<wire::StopWorkers>().size(), 2U);
  EXPECT_EQ(sent<wire::StopWorkers>()[0].second.signal, SIGKILL);
}

TEST_F(JobTest, TheFirstSignalEndsTheWaitForLogFilesOfRanksThatHaveEnded) {
  run();
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0);
  ASSERT_EQ(job.phase(), Phase::kStopping);
  happen(Interrupted{SIGTERM});
  EXPECT_EQ(sent<wire::StopWorkers>().size(), 2U);
  EXPECT_EQ(told(), "") << "no worker to wait for or to kill";
  empty_all();
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST_F(JobTest, ASignalBeforeTheNextAttemptRunsKeepsTheCulpritOfTheLast) {
  run();
  worker_exits(2, 3);
  empty_all();
  begin();
  happen(Interrupted{SIGTERM});
  EXPECT_EQ(job.verdict().exit_code, 143);
  ASSERT_TRUE(job.verdict().culprit);
  EXPECT_EQ(job.verdict().culprit->rank, Rank(2));
}

TEST_F(JobTest, ASignalDuringARestartBlamesNoRank) {
  run();
  worker_exits(2, 3);
  empty_all();
  begin();
  start_workers();
  happen(Interrupted{SIGTERM});
  empty_all();
  EXPECT_EQ(job.verdict().exit_code, 143);
  EXPECT_FALSE(job.verdict().culprit);
}

TEST_F(JobTest, ARestartThatCannotBeginIsTheLaunchersFailureAndKeepsTheCulprit) {
  run();
  said(1, wire::WorkerReported{Rank(3), wire::ReportKind::kStep, 57, ""});
  worker_exits(2, 3);
  empty_all();
  happen(AttemptDenied{AttemptDenied::By::kDisk, Error(ErrorCode::kNotFound, "cannot write /c: gone")});
  EXPECT_EQ(job.verdict().exit_code, kExitInternal);
  EXPECT_EQ(job.verdict().gave_up, Verdict::GaveUp::kBudget);
  EXPECT_EQ(job.verdict().cause, "cannot write /c: gone, after rank 2 (node1) exited with code 3 at step 57");
  ASSERT_TRUE(job.verdict().culprit);
  EXPECT_EQ(job.verdict().culprit->rank, Rank(2));
}

TEST_F(JobTest, ANodeThatRefusesARestartIsLost) {
  for (const bool when_starting : {false, true}) {
    anew(two_nodes_of_two(1));
    run();
    worker_exits(2, 3);
    empty_all();
    begin();
    if (when_starting) start_workers();
    said(0, wire::AttemptRefused{127, "train: not found"});
    ASSERT_EQ(decided<KillAgent>().size(), 1U);
    EXPECT_EQ(decided<KillAgent>()[0].agent.node, NodeId(0));
    if (when_starting) empty(1);
    happen(LeftoversSeen{});
    EXPECT_EQ(job.phase(), Phase::kLeaving);
    EXPECT_EQ(job.verdict().exit_code, kExitNodesMissing);
    EXPECT_EQ(job.verdict().cause, "node0 was lost: it refused the attempt: train: not found");
    EXPECT_EQ(job.verdict().gave_up, Verdict::GaveUp::kBudget);
  }
}

TEST_F(JobTest, AFirstAttemptThatCannotBeginIsWrongUsage) {
  gather();
  happen(AttemptDenied{AttemptDenied::By::kDisk, Error(ErrorCode::kNotFound, "cannot write /c: gone")});
  EXPECT_EQ(job.verdict().exit_code, kExitUsage);
}

TEST_F(JobTest, ASignalAfterTheVerdictDoesNotChangeIt) {
  run();
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0);
  empty_all();
  happen(Interrupted{SIGINT});
  EXPECT_EQ(decided<KillAgent>().size(), 2U);
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST_F(JobTest, KillsAgentsThatDoNotEmptyTheirNodeInTime) {
  run();
  worker_exits(2, 3);
  empty(1);
  for (int second = 0; second < 15; ++second) {
    now += 1s;
    said(0, wire::Pong{});
    said(1, wire::Pong{});
  }
  happen(TimePassed{});
  EXPECT_TRUE(decided<KillAgent>().empty()) << "a launcher that slept first reads waiting messages";
  pass(200ms);
  ASSERT_EQ(decided<KillAgent>().size(), 1U);
  EXPECT_EQ(decided<KillAgent>()[0].agent.node, NodeId(0));
}

TEST_F(JobTest, KillsAgentsThatDoNotLeave) {
  run();
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0);
  empty_all();
  for (int second = 0; second < 5; ++second) {
    now += 1s;
    said(0, wire::Pong{});
    said(1, wire::Pong{});
  }
  happen(TimePassed{});
  pass(200ms);
  EXPECT_EQ(decided<KillAgent>().size(), 2U);
  happen(LeftoversSeen{});
  EXPECT_EQ(decided<Finish>().size(), 1U);
}

TEST_F(JobTest, RemembersStepsOfEachAttempt) {
  run();
  said(0, wire::WorkerReported{Rank(0), wire::ReportKind::kCommitted, 40, ""});
  said(0, wire::WorkerReported{Rank(1), wire::ReportKind::kStep, 55, ""});
  said(1, wire::WorkerReported{Rank(2), wire::ReportKind::kStep, 57, ""});
  worker_exits(2, 0, SIGKILL);
  empty_all();
  begin();
  start_workers();
  said(0, wire::WorkerReported{Rank(1), wire::ReportKind::kResumed, 39, ""});
  said(0, wire::WorkerReported{Rank(0), wire::ReportKind::kResumed, 40, ""});
  ASSERT_EQ(job.history().size(), 2U);
  EXPECT_EQ(job.history()[0].committed_step, 40);
  EXPECT_EQ(job.history()[0].last_step, 57);
  EXPECT_EQ(job.history()[1].resumed_step, 40);
  EXPECT_EQ(job.history()[1].repeated_steps, 17);
}

TEST_F(JobTest, TheNewestProfileOfEachRankIsRemembered) {
  run();
  for (const std::int64_t steps : {10, 20})
    said(1,
         wire::WorkerReported{Rank(3), wire::ReportKind::kProfile, steps, "", 0, {{"data", steps * 1000}}});
  const auto& profiles = job.history()[0].profiles;
  ASSERT_EQ(profiles.size(), 1U);
  EXPECT_EQ(profiles.at(Rank(3)).rank, 3);
  EXPECT_EQ(profiles.at(Rank(3)).step_count, 20);
  EXPECT_EQ(profiles.at(Rank(3)).parts_ns.at("data"), 20'000);
}

TEST_F(JobTest, ReportsRecordsAndRemembersASlowRank) {
  run();
  std::int64_t step = 0;
  std::string said_so;
  std::vector<Record> recorded;
  // Rank 3 is slow, then all ranks are equal.
  for (const auto slow : {130ms, 100ms}) {
    for (int count = 0; count < 2 * Stragglers::kWindowSteps * Stragglers::kWindowCount; ++count) {
      ++step;
      for (int rank = 0; rank < 4; ++rank) {
        const std::chrono::nanoseconds busy = rank == 3 ? slow : 100ms;
        said(rank / 2, wire::WorkerReported{Rank(rank), wire::ReportKind::kStep, step, "", busy.count()});
        said_so += told();
        for (const Record& record : decided<Record>()) recorded.push_back(record);
      }
    }
  }
  EXPECT_EQ(said_so,
            "rank 3 (node1) is slower than the others: 130 ms a step against 100 ms\n"
            "rank 3 (node1) is no longer slower than the others: 100 ms a step against 100 ms\n");
  ASSERT_EQ(recorded.size(), 2U);
  EXPECT_EQ(recorded[0].event, "straggler");
  EXPECT_EQ(recorded[0].rank, Rank(3));
  EXPECT_EQ(recorded[0].node, NodeId(1));
  EXPECT_EQ(recorded[1].event, "straggler_over");
  ASSERT_EQ(job.history()[0].stragglers.size(), 1U);
  const Slowness& slowness = job.history()[0].stragglers[0];
  EXPECT_EQ(slowness.rank, Rank(3));
  EXPECT_EQ(slowness.since_step, 50);
  EXPECT_EQ(slowness.until_step, 150);
}

}  // namespace
}  // namespace muster::launcher
