// The job's reaction to a worker that hangs, and to one that cannot be killed.
#include <cerrno>

#include "tests/unit/launcher/job_fixture.h"

namespace muster::launcher {
namespace {

class HangTest : public JobTest {
 protected:
  explicit HangTest(std::int32_t max_restarts = 0) : JobTest(max_restarts) {}
  void stalls(int rank, bool hard, bool stopped = false, std::int64_t step = 5) {
    wire::WorkerStalled stalled;
    stalled.rank = Rank(rank);
    stalled.hard = hard;
    stalled.stopped = stopped;
    stalled.step = step;
    stalled.section = "step";
    stalled.what = "has not got on for 60 s";
    stalled.since_ns = to_ns(now);
    said(rank / 2, stalled);
  }
  void stands(int rank, const std::string& frame, bool hard) {
    wire::WorkerStalled stalled;
    stalled.rank = Rank(rank);
    stalled.hard = hard;
    stalled.what = "has been in " + frame + " for 60 s";
    stalled.frame = frame;
    stalled.since_ns = to_ns(now - 60s);
    said(rank / 2, stalled);
  }
  void moves(int rank) {
    wire::WorkerStalled moved;
    moved.rank = Rank(rank);
    moved.over = true;
    said(rank / 2, moved);
  }
  void stacks(int rank, const char* text = "all_reduce\n") {
    said(rank / 2, wire::WorkerStacks{Rank(rank), text});
  }
  void all_stopped() {
    for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0, SIGTERM, true);
    empty_all();
  }
};
class HangWithRestart : public HangTest {
 protected:
  HangWithRestart() : HangTest(1) {}
};

TEST_F(HangTest, ASoftStallIsReportedAndStacksAreRequestedOnce) {
  run();
  stalls(2, false);
  EXPECT_THAT(told(), HasSubstr("rank 2 (node1) has not got on for 60 s"));
  EXPECT_EQ(sent<wire::DumpStacks>().size(), 2U);
  EXPECT_EQ(job.phase(), Phase::kRunning);
  stalls(3, false);
  EXPECT_TRUE(sent<wire::DumpStacks>().empty());
  EXPECT_EQ(told(), "") << "the others wait for it; no line for them";
}

TEST_F(HangTest, IfNoRankWithoutStepsMovesTheUserIsToldOnceWhichOneIsElsewhere) {
  run();
  for (const int rank : {0, 1, 3}) stands(rank, "all_reduce (dist.py:7)", false);
  EXPECT_EQ(told(), "") << "rank 2 may be working";
  stands(2, "load (data.py:5)", false);
  EXPECT_THAT(told(), HasSubstr("no rank has moved for 60 s: rank 2 (node1) is in load (data.py:5); "
                                "3 ranks, such as 0, are in all_reduce (dist.py:7)"));
  EXPECT_TRUE(sent<wire::DumpStacks>().empty()) << "nothing disturbs the program";
  EXPECT_EQ(job.phase(), Phase::kRunning);
  stands(2, "load (data.py:5)", true);
  EXPECT_EQ(job.phase(), Phase::kRunning) << "the others may still move";
  pass(10s);
  moves(2);
  ASSERT_EQ(job.history().back().stalls.size(), 1U);
  EXPECT_THAT(text_of(job.history().back().stalls.front()), HasSubstr("; it went on after 70 s"));
  for (const int rank : {0, 1, 3}) stands(rank, "all_reduce (dist.py:7)", true);
  EXPECT_EQ(told(), "");
}

TEST_F(HangTest, RanksThatStandStillForTheLimitAfterAnotherHasEndedHang) {
  run();
  for (const int rank : {1, 2, 3}) stands(rank, "barrier (dist.py:7)", true);
  worker_exits(0, 0);
  EXPECT_EQ(told(), "");
  pass(299s);
  EXPECT_EQ(told(), "") << "they may have waited for rank 0, and go on soon";
  pass(2s);
  EXPECT_THAT(told(), HasSubstr("no rank has moved for 300 s: all 3 ranks are in barrier (dist.py:7)"));
  pass(298s);
  EXPECT_EQ(job.phase(), Phase::kRunning);
  pass(2s);
  EXPECT_EQ(job.phase(), Phase::kDumping);
}

TEST_F(HangTest, RanksWithoutStepsThatReachTheUsersLimitHang) {
  run();
  for (const int rank : {0, 1, 2, 3}) stands(rank, rank == 2 ? "load (data.py:5)" : "recv (dist.py:7)", true);
  ASSERT_EQ(job.phase(), Phase::kDumping);
  for (const int rank : {0, 1, 3})
    stacks(rank, "Thread 7 (idle): \"MainThread\"\n    recv (dist.py:7)\n    <module> (train.py:3)\n");
  stacks(2, "Thread 7 (idle): \"MainThread\"\n    load (data.py:5)\n    <module> (train.py:2)\n");
  all_stopped();
  EXPECT_EQ(job.verdict().kind, Verdict::Kind::kHang);
  EXPECT_EQ(job.verdict().rank, Rank(2));
  EXPECT_THAT(job.verdict().cause, HasSubstr("it has been in load (data.py:5) for 60 s"));
}

TEST_F(HangTest, DoesNotNameARankThatWaitsForASilentNode) {
  run();
  now += 3s;
  stalls(0, false);
  EXPECT_EQ(told(), "") << "node1 was silent for 3 s";
  EXPECT_TRUE(sent<wire::DumpStacks>().empty());
  said(1, wire::Pong{});
  stalls(1, false);
  EXPECT_THAT(told(), HasSubstr("rank 1 (node0) has not got on for 60 s"));
}

TEST_F(HangTest, TheUserGetsTheStacksOfLivingRanks) {
  happen(StacksWanted{});
  EXPECT_TRUE(sent<wire::DumpStacks>().empty()) << "no worker is running";
  run();
  worker_exits(1, 0);
  happen(StacksWanted{});
  EXPECT_EQ(sent<wire::DumpStacks>().size(), 2U);
  EXPECT_EQ(job.living_ranks(), (std::vector{Rank(0), Rank(2), Rank(3)}));
  worker_exits(0, 0);
  empty(0);
  EXPECT_EQ(job.living_ranks(), (std::vector{Rank(2), Rank(3)}));
}

TEST_F(HangTest, ReportsAStallAgainAfterAFalseOne) {
  run();
  stalls(2, false);
  stalls(3, false);
  reported(2, "step", 6);
  stalls(2, false, false, 6);
  EXPECT_EQ(told(), "") << "rank 3 has made no progress yet";
  reported(2, "step", 7);
  reported(3, "step", 7);
  stalls(2, false, false, 7);
  EXPECT_THAT(told(), HasSubstr("rank 2 (node1) has not got on for 60 s"));
  EXPECT_EQ(sent<wire::DumpStacks>().size(), 2U);
}

TEST_F(HangTest, AHardStallCollectsTheStacksOfAllBeforeItStopsTheAttempt) {
  run();
  stalls(2, true);
  EXPECT_EQ(job.phase(), Phase::kDumping);
  EXPECT_EQ(sent<wire::DumpStacks>().size(), 2U);
  EXPECT_TRUE(sent<wire::StopWorkers>().empty());
  for (int rank = 0; rank < 3; ++rank) stacks(rank);
  EXPECT_EQ(job.phase(), Phase::kDumping);
  stacks(3);
  EXPECT_EQ(sent<wire::StopWorkers>().size(), 2U);
  all_stopped();
  EXPECT_EQ(job.verdict().kind, Verdict::Kind::kHang);
  EXPECT_EQ(job.verdict().exit_code, kExitTimeOut);
  EXPECT_EQ(job.verdict().rank, Rank(2));
  EXPECT_EQ(job.verdict().node, NodeId(1));
  EXPECT_EQ(job.verdict().cause, "rank 2 (node1) hangs: it has not got on for 60 s in section step");
  EXPECT_EQ(job.verdict().collateral_count, 3);
  EXPECT_THAT(job.verdict().evidence.at(0), HasSubstr("rank 2: all_reduce"));
}

TEST_F(HangTest, BlamesNoRankIfAllLookTheSame) {
  run();
  for (int rank = 0; rank < 4; ++rank) stalls(rank, rank == 2);
  for (int rank = 0; rank < 4; ++rank) stacks(rank);
  all_stopped();
  const Verdict& verdict = job.verdict();
  EXPECT_EQ(verdict.exit_code, kExitTimeOut);
  EXPECT_EQ(verdict.rank, std::nullopt);
  EXPECT_EQ(verdict.node, std::nullopt);
  EXPECT_EQ(verdict.cause,
            "no rank can be singled out: ranks 0, 1, 2 and 3 hang in all_reduce; rank 0 (node0) "
            "has not got on for 60 s");
  EXPECT_EQ(verdict.suspects.size(), 4U);
  EXPECT_EQ(verdict.collateral_count, 0);
  EXPECT_THAT(verdict.evidence.at(0), HasSubstr("4 ranks, such as 0: all_reduce"));
}

TEST_F(HangTest, WaitsTwoSecondsForTheStacksAndNoLonger) {
  run();
  stalls(2, true);
  pass(1900ms);
  EXPECT_EQ(job.phase(), Phase::kDumping);
  pass(100ms);
  EXPECT_EQ(job.phase(), Phase::kStopping);
}

TEST_F(HangTest, BlamesAStoppedWorkerEvenIfItMakesStepsAfterItWasContinued) {
  run();
  stalls(3, true, true, 9);
  reported(3, "step", 10);
  pass(2s);
  reported(3, "step", 11);
  all_stopped();
  EXPECT_EQ(job.verdict().kind, Verdict::Kind::kHang);
  EXPECT_EQ(job.verdict().rank, Rank(3));
}

TEST_F(HangTest, BlamesTheStoppedRankAndContinuesItSoThatItActsOnTheStop) {
  run();
  stalls(0, true, false, 3);
  stalls(3, true, true, 9);
  pass(2s);
  ASSERT_EQ(sent<wire::SignalWorkers>().size(), 2U);
  EXPECT_EQ(sent<wire::SignalWorkers>()[0].second.signal, SIGCONT);
  all_stopped();
  EXPECT_EQ(job.verdict().rank, Rank(3));
}

TEST_F(HangTest, AWorkerThatFailsMeanwhileIsAVictim) {
  run();
  stalls(2, true);
  worker_exits(0, 1);
  EXPECT_EQ(job.phase(), Phase::kDumping);
  pass(2s);
  all_stopped();
  EXPECT_EQ(job.verdict().rank, Rank(2));
}

TEST_F(HangTest, ARunThatSucceedsAfterAllIsASuccess) {
  run();
  stalls(2, true);
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0);
  empty_all();
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST_F(HangWithRestart, AHangIsRepeatedLikeAnyFailure) {
  run();
  stalls(2, true);
  pass(2s);
  all_stopped();
  EXPECT_EQ(job.phase(), Phase::kBeginning);
  EXPECT_EQ(job.restart_count(), 1);
}

TEST_F(HangTest, CtrlCDuringADumpEndsTheJob) {
  run();
  stalls(2, true);
  happen(Interrupted{SIGINT});
  EXPECT_EQ(job.phase(), Phase::kStopping);
  all_stopped();
  EXPECT_EQ(job.verdict().exit_code, 130);
}

TEST_F(HangTest, NamesAnUnkillableWorkerAndWaitsOnlyTheGraceAndFiveSeconds) {
  run();
  worker_exits(2, 3);
  const TimePoint stopped = now;
  pass(13s);
  said(0, wire::WorkerUnkillable{Rank(1), 4711, "has not ended 3 s after SIGKILL"});
  EXPECT_THAT(told(), HasSubstr("rank 1 (node0, pid 4711) has not ended 3 s after SIGKILL"));
  while (job.phase() != Phase::kDone && now < stopped + 1min) pass(500ms);
  EXPECT_LE(now - stopped, 15s + 500ms);
  EXPECT_EQ(decided<KillAgent>().size(), 2U);
  EXPECT_EQ(decided<Finish>().size(), 1U);
  EXPECT_EQ(job.verdict().exit_code, 3) << "the culprit's stack";
  EXPECT_EQ(job.verdict().rank, Rank(2));
  EXPECT_THAT(job.verdict().evidence.back(), HasSubstr("rank 1 (node0, pid 4711)"));
}

TEST_F(HangTest, DoesNotWaitForAnAgentThatDoesNotFinishAfterItsRanksSucceeded) {
  run();
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0);
  const TimePoint ended = now;
  empty(0);
  while (decided<KillAgent>().empty() && now < ended + 1min) pass(500ms);
  EXPECT_LE(now - ended, 5s + 500ms);
  ASSERT_EQ(decided<KillAgent>().size(), 1U);
  EXPECT_EQ(decided<KillAgent>()[0].agent.node, NodeId(1));
  happen(LeftoversSeen{});
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST_F(HangTest, AnAgentThatStillWritesLogFilesIsNotLateOnceAllRanksHaveEnded) {
  run();
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0);
  empty(0);
  for (int second = 0; second < 60; ++second) {
    pass(1s);
    ASSERT_TRUE(decided<KillAgent>().empty()) << second;
    said(1, wire::Pong{.sent_ns = 0, .at_ns = 0, .output_waits = true});
  }
  empty(1);
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST_F(HangTest, RanksOfALostNodeDoNotCountAsLiving) {
  run();
  end_agent(1, "its agent was killed by SIGKILL");
  happen(LeftoversSeen{});
  happen(Interrupted{SIGINT});
  EXPECT_THAT(told(), HasSubstr("waiting for 2 workers to end"));
  for (const int rank : {0, 1}) worker_exits(rank, 0, SIGTERM, true);
  for (int second = 0; second < 60; ++second) {
    pass(1s);
    ASSERT_TRUE(decided<KillAgent>().empty()) << second << ": it is still writing log files";
    said(0, wire::Pong{.sent_ns = 0, .at_ns = 0, .output_waits = true});
  }
  empty(0);
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, kExitNodesMissing);
}

TEST_F(HangTest, NamesUnkillableLeftoversAndDoesNotWaitForThemAfterSuccess) {
  run();
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0);
  said(1, wire::LeftoversUnkillable{{{.pid = 12, .name = "sudo", .uid = 0, .error = EPERM}}});
  EXPECT_EQ(
      told(),
      "node1: process 12 (sudo, uid 0) cannot be killed: Operation not permitted (errno 1); left behind\n");
  empty_all();
  ASSERT_EQ(job.phase(), Phase::kLeaving);
  end_agent(0, "left");
  end_agent(1, "left");
  leftovers_remain({{.pid = 13, .name = "sleep", .uid = 1000, .error = 0}});
  EXPECT_THAT(told(),
              HasSubstr("process 13 (sleep, uid 1000) is still alive after SIGKILL (errno 0); left behind"));
  EXPECT_EQ(decided<Finish>().size(), 1U);
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST_F(HangWithRestart, DoesNotRestartWhileUnkillableProcessesOfALostNodeRemain) {
  run();
  end_agent(1, "its agent was killed by SIGKILL");
  for (int rank = 0; rank < 2; ++rank) worker_exits(rank, 0, SIGTERM, true);
  empty(0);
  leftovers_remain({{.pid = 13, .name = "python", .uid = 0, .error = 0}});
  EXPECT_EQ(job.phase(), Phase::kStopping);
  for (int i = 0; i < 60 && job.phase() != Phase::kDone; ++i) pass(500ms);
  EXPECT_EQ(job.phase(), Phase::kDone);
  EXPECT_EQ(job.restart_count(), 0);
  EXPECT_EQ(job.verdict().exit_code, 69);
}

TEST_F(HangTest, ProcessesThatOutliveTheirKilledAgentDoNotKeepTheLauncherForEver) {
  run();
  worker_exits(2, 3);
  for (int i = 0; i < 60 && job.phase() != Phase::kDone; ++i) pass(500ms);
  EXPECT_EQ(job.phase(), Phase::kDone);
  EXPECT_EQ(job.verdict().exit_code, 3);
}

TEST_F(HangTest, PassesOnRemarksOfAgents) {
  run();
  said(1, wire::AgentRemark{"the log disk is full"});
  EXPECT_EQ(told(), "node1: the log disk is full\n");
}

}  // namespace
}  // namespace muster::launcher
