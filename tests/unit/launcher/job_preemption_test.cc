// The job's reaction to signals and limits: Ctrl-C, notices to leave, the time limit.
#include "tests/unit/launcher/job_fixture.h"

namespace muster::launcher {
namespace {

Plan plan_without_checkpoints() {
  Plan plan = two_nodes_of_two(3);
  plan.job.checkpoint_directory.clear();
  return plan;
}
Plan plan_with_limit(Duration limit) {
  Plan plan = plan_without_checkpoints();
  plan.recovery.time_limit = limit;
  plan.recovery.preemption_grace = 4s;
  return plan;
}

class PreemptionTest : public JobTest {
 protected:
  PreemptionTest() : JobTest(plan_without_checkpoints()) {}
  explicit PreemptionTest(const Plan& plan) : JobTest(plan) {}
  void all_can() {
    for (int rank = 0; rank < 4; ++rank) reported(rank, "hello", 0, "stacks preemption");
  }
  void all_save_and_leave() {
    reported(0, "committed", 60);
    for (int rank = 0; rank < 4; ++rank) {
      reported(rank, "preempted", 60);
      worker_exits(rank, 75);
    }
    empty_all();
  }
};
class TimeLimitTest : public PreemptionTest {
 protected:
  TimeLimitTest() : PreemptionTest(plan_with_limit(20s)) {}
};
class ShortTimeLimitTest : public PreemptionTest {
 protected:
  ShortTimeLimitTest() : PreemptionTest(plan_with_limit(6s)) {}
};

TEST_F(PreemptionTest, IsPassedOnWhenEveryRankCanTakeIt) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    anew(plan_without_checkpoints());
    run();
    all_can();
    happen(Interrupted{signal});
    ASSERT_EQ(sent<wire::Preempt>().size(), 2U);
    EXPECT_EQ(std::chrono::nanoseconds(sent<wire::Preempt>()[0].second.grace_ns), 30s);
    EXPECT_TRUE(sent<wire::StopWorkers>().empty());
    all_save_and_leave();
    EXPECT_EQ(job.phase(), Phase::kLeaving);
    EXPECT_EQ(job.verdict().kind, Verdict::Kind::kPreempted);
    EXPECT_EQ(job.verdict().exit_code, kExitPreempted);
  }
}

TEST_F(PreemptionTest, CtrlCAndCancelSaveAsTermDoesButAreNotPreemptions) {
  for (const Event& wish : {Event(Interrupted{SIGINT}), Event(Cancelled{})}) {
    const bool cancelled = std::holds_alternative<Cancelled>(wish);
    anew(plan_without_checkpoints());
    run();
    all_can();
    reported(3, "step", 102);
    happen(wish);
    EXPECT_EQ(sent<wire::Preempt>().size(), 2U);
    EXPECT_TRUE(sent<wire::StopWorkers>().empty());
    EXPECT_EQ(told(), cancelled ? "`launch cancel`: the workers are asked to save and leave within 30 s; "
                                  "`launch cancel --now` stops at once\n"
                                : "SIGINT: the workers are asked to save and leave within 30 s; "
                                  "Ctrl-C again stops at once\n");
    reported(0, "saving", 104);
    EXPECT_EQ(told(), cancelled ? "saving step 104; `launch cancel --now` stops at once\n"
                                : "saving step 104; Ctrl-C again stops at once\n");
    reported(3, "step", 104);
    reported(0, "committed", 104);
    for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 75);
    empty_all();
    EXPECT_EQ(job.phase(), Phase::kLeaving);
    EXPECT_EQ(job.verdict().kind, cancelled ? Verdict::Kind::kCancelled : Verdict::Kind::kInterrupted);
    EXPECT_EQ(job.verdict().exit_code, 130);
    EXPECT_EQ(job.verdict().origin, "user");
    EXPECT_EQ(job.verdict().cause, std::string("stopped by ") + (cancelled ? "`launch cancel`" : "SIGINT") +
                                       "; step 104 is saved; no step is lost");
  }
}

TEST_F(PreemptionTest, CtrlCAgainStopsWithoutSaving) {
  run();
  all_can();
  reported(0, "committed", 100);
  reported(1, "step", 103);
  happen(Interrupted{SIGINT});
  happen(Interrupted{SIGINT});
  ASSERT_EQ(sent<wire::StopWorkers>().size(), 2U);
  EXPECT_EQ(sent<wire::StopWorkers>()[0].second.signal, SIGTERM) << "they had INT's chance with the notice";
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0, SIGTERM, true);
  empty_all();
  EXPECT_EQ(job.verdict().exit_code, 130);
  EXPECT_EQ(job.verdict().cause, "stopped by SIGINT; 3 steps are lost");
}

TEST_F(PreemptionTest, StepsInMemoryAreNotLostOnceTheyAreACheckpoint) {
  Plan plan = plan_without_checkpoints();
  plan.job.limits.memory_tier_bytes = 1 << 20;
  anew(plan);
  run();
  all_can();
  reported(0, "committed", 100);
  reported(1, "step", 103);
  happen(Interrupted{SIGINT});
  happen(Interrupted{SIGINT});
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0, SIGTERM, true);
  empty_all();
  EXPECT_EQ(job.verdict().cause, "stopped by SIGINT");
  EXPECT_EQ(lost_steps(job.history()), 3);
  said(0, wire::AgentRemark{"step 102 is a checkpoint now", 102});
  EXPECT_EQ(lost_steps(job.history()), 1);
  said(1, wire::AgentRemark{"the log disk is full"});
  EXPECT_EQ(lost_steps(job.history()), 1);
}

TEST_F(PreemptionTest, ARepeatedCancelWaitsForTheSaveUnlessItIsNow) {
  run();
  all_can();
  happen(Cancelled{});
  for (int i = 0; i < 3; ++i) {
    happen(Cancelled{});
    EXPECT_TRUE(last.empty()) << i;
  }
  happen(Cancelled{.now = true});
  ASSERT_FALSE(sent<wire::StopWorkers>().empty());
  EXPECT_EQ(sent<wire::StopWorkers>().back().second.signal, SIGKILL);
  empty_all();
  EXPECT_EQ(job.verdict().kind, Verdict::Kind::kCancelled);
}

TEST_F(PreemptionTest, ACancelNowDoesNotSave) {
  run();
  all_can();
  happen(Cancelled{.now = true});
  EXPECT_TRUE(sent<wire::Preempt>().empty());
  EXPECT_EQ(sent<wire::StopWorkers>().back().second.signal, SIGKILL);
}

TEST_F(PreemptionTest, ACancelDuringANoticeIsNotAPreemption) {
  run();
  all_can();
  happen(Interrupted{SIGTERM});
  happen(Cancelled{});
  EXPECT_TRUE(last.empty()) << "they are already saving";
  all_save_and_leave();
  EXPECT_EQ(job.verdict().kind, Verdict::Kind::kCancelled);
  EXPECT_EQ(job.verdict().exit_code, 130);
}

TEST_F(PreemptionTest, TermStopsTheJobWhenARankCannotTakeIt) {
  run();
  for (int rank = 0; rank < 3; ++rank) reported(rank, "hello", 0, "stacks preemption");
  reported(3, "hello", 0, "stacks");
  happen(Interrupted{SIGTERM});
  EXPECT_TRUE(sent<wire::Preempt>().empty());
  EXPECT_EQ(sent<wire::StopWorkers>().size(), 2U);
  empty_all();
  EXPECT_EQ(job.verdict().exit_code, 143);
}

TEST_F(PreemptionTest, UserSignalsArePassedOnUnchanged) {
  run();
  for (const int signal : {SIGUSR1, SIGUSR2}) {
    happen(Interrupted{signal});
    ASSERT_EQ(sent<wire::SignalWorkers>().size(), 2U);
    EXPECT_EQ(sent<wire::SignalWorkers>()[0].second.signal, signal);
    EXPECT_EQ(job.phase(), Phase::kRunning);
  }
  all_can();
  happen(Interrupted{SIGUSR2});
  EXPECT_EQ(sent<wire::SignalWorkers>().size(), 2U) << "USR2 is not a notice";
}

TEST_F(PreemptionTest, UserSignalsDoNothingWhileNoWorkerRuns) {
  gather();
  happen(Interrupted{SIGUSR1});
  EXPECT_THAT(told(), HasSubstr("SIGUSR1 is ignored: no worker is running"));
  EXPECT_EQ(job.phase(), Phase::kPreparing);
}

// As in a job where each rank's checkpoint belongs to a group, which the launcher does not learn about.
TEST_F(PreemptionTest, TheJobHasSavedIfAllRanksReportThatTheyLeave) {
  for (const int leaving : {4, 3}) {
    anew(plan_without_checkpoints());
    run();
    all_can();
    happen(Interrupted{SIGTERM});
    for (int rank = 0; rank < leaving; ++rank) reported(rank, "preempted", 60);
    for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 75);
    empty_all();
    EXPECT_EQ(job.phase(), Phase::kLeaving);
    EXPECT_EQ(job.verdict().exit_code, leaving == 4 ? kExitPreempted : 143);
  }
}

TEST_F(PreemptionTest, WithoutACheckpointItIsNotAPreemption) {
  run();
  all_can();
  happen(Interrupted{SIGTERM});
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 75);
  empty_all();
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().kind, Verdict::Kind::kInterrupted);
  EXPECT_EQ(job.verdict().exit_code, 143);
}

class CheckpointedPreemptionTest : public PreemptionTest {
 protected:
  CheckpointedPreemptionTest() : PreemptionTest(two_nodes_of_two(3)) {}
  void leave_without_a_word() {
    happen(Interrupted{SIGTERM});
    for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 75);
    empty_all();
  }
};

TEST_F(CheckpointedPreemptionTest, LooksForACommitThatWasNotReported) {
  run();
  all_can();
  leave_without_a_word();
  ASSERT_EQ(decided<LookForCheckpoint>().size(), 1U);
  happen(CheckpointFound{60});
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().kind, Verdict::Kind::kPreempted);
  EXPECT_EQ(job.verdict().exit_code, kExitPreempted);
}

TEST_F(CheckpointedPreemptionTest, ACommitBeforeTheNoticeDoesNotCount) {
  run();
  all_can();
  reported(0, "committed", 60);
  leave_without_a_word();
  ASSERT_EQ(decided<LookForCheckpoint>().size(), 1U);
  happen(CheckpointFound{60});
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, 143);
}

TEST_F(CheckpointedPreemptionTest, DoesNotLookForAReportedCommit) {
  run();
  all_can();
  happen(Interrupted{SIGTERM});
  all_save_and_leave();
  EXPECT_TRUE(decided<LookForCheckpoint>().empty());
  EXPECT_EQ(job.verdict().exit_code, kExitPreempted);
}

TEST_F(PreemptionTest, AJobThatFinishesMeanwhileHasSucceeded) {
  run();
  all_can();
  happen(Interrupted{SIGTERM});
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0);
  empty_all();
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST_F(PreemptionTest, ARegularCheckpointBeforeTheEndIsNotAPreemption) {
  run();
  all_can();
  happen(Interrupted{SIGTERM});
  reported(0, "committed", 60);
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0);
  empty_all();
  EXPECT_EQ(job.verdict().kind, Verdict::Kind::kSucceeded);
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST_F(PreemptionTest, RanksThatSayThatTheyLeaveOnNoticeMayEndWith0) {
  run();
  all_can();
  happen(Interrupted{SIGTERM});
  reported(0, "committed", 60);
  reported(0, "preempted", 60);
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0);
  empty_all();
  EXPECT_EQ(job.verdict().kind, Verdict::Kind::kPreempted);
  EXPECT_EQ(job.verdict().exit_code, kExitPreempted);
}

TEST_F(PreemptionTest, StopsTheWorkersWhenTheGraceHasPassed) {
  run();
  all_can();
  happen(Interrupted{SIGTERM});
  pass(30s);
  EXPECT_EQ(sent<wire::StopWorkers>().size(), 2U);
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0, SIGTERM, true);
  empty_all();
  EXPECT_EQ(job.verdict().exit_code, 143);
}

TEST_F(PreemptionTest, AFailureMeanwhileEndsTheJobAndIsNamed) {
  run();
  all_can();
  happen(Interrupted{SIGTERM});
  worker_exits(2, 3);
  EXPECT_EQ(job.phase(), Phase::kStopping);
  empty_all();
  EXPECT_EQ(job.phase(), Phase::kLeaving) << "too late for a restart";
  EXPECT_EQ(job.verdict().exit_code, 143);
  EXPECT_EQ(job.verdict().rank, Rank(2));
}

TEST_F(PreemptionTest, ASecondTermDoesNotWaitForTheGrace) {
  run();
  all_can();
  happen(Interrupted{SIGTERM});
  happen(Interrupted{SIGTERM});
  EXPECT_EQ(sent<wire::StopWorkers>().size(), 2U);
}

TEST_F(PreemptionTest, TermSaysNothingOfKeys) {
  run();
  happen(Interrupted{SIGTERM});
  EXPECT_EQ(told(), "waiting for 4 workers to end (grace 10 s)\n");
}

TEST_F(PreemptionTest, CtrlCSaysWhatItWaitsForAndKillsAtTheSecondAndLeavesAtTheThird) {
  run();
  worker_exits(0, 0);
  happen(Interrupted{SIGINT});
  EXPECT_EQ(told(), "waiting for 3 workers to end (grace 10 s; Ctrl-C again to kill)\n");
  happen(Interrupted{SIGINT});
  EXPECT_EQ(told(), "killing 3 workers; Ctrl-C again to leave at once\n");
  happen(Interrupted{SIGINT});
  EXPECT_EQ(decided<KillAgent>().size(), 2U);
  EXPECT_EQ(decided<Finish>().size(), 1U);
  EXPECT_EQ(job.verdict().exit_code, 130);
  EXPECT_EQ(next_deadline(), std::nullopt);
}

TEST_F(PreemptionTest, ARepeatedCancelStopsOnce) {
  run();
  happen(Cancelled{});
  EXPECT_EQ(sent<wire::StopWorkers>().size(), 2U);
  for (int i = 0; i < 3; ++i) {
    happen(Cancelled{});
    EXPECT_TRUE(last.empty()) << i;
  }
  happen(Cancelled{.now = true});
  ASSERT_EQ(sent<wire::StopWorkers>().size(), 2U);
  EXPECT_EQ(sent<wire::StopWorkers>()[0].second.signal, SIGKILL);
  happen(Cancelled{.now = true});
  EXPECT_TRUE(last.empty());
  empty_all();
  EXPECT_EQ(job.verdict().exit_code, 130);
  EXPECT_EQ(job.verdict().kind, Verdict::Kind::kCancelled);
}

TEST_F(PreemptionTest, ACancelWithoutTheGraceKillsAtOnce) {
  run();
  happen(Cancelled{.now = true});
  const auto stops = sent<wire::StopWorkers>();
  ASSERT_FALSE(stops.empty());
  EXPECT_EQ(stops.back().second.signal, SIGKILL);
  EXPECT_EQ(job.phase(), Phase::kStopping);
}

TEST_F(PreemptionTest, LeavingAtOnceKeepsTheCulpritOfAStoppingAttempt) {
  run();
  worker_exits(2, 3);
  for (int i = 0; i < 3; ++i) happen(Interrupted{SIGINT});
  EXPECT_EQ(job.phase(), Phase::kDone);
  EXPECT_EQ(job.verdict().exit_code, 130);
  EXPECT_EQ(job.verdict().rank, Rank(2));
}

TEST_F(TimeLimitTest, GivesNoticeBeforeItAndEndsWith75WhenAllSave) {
  const TimePoint start = now;
  run();
  all_can();
  while (sent<wire::Preempt>().empty() && now < start + 1min) pass(500ms);
  EXPECT_EQ(now - start, 16s);
  EXPECT_EQ(std::chrono::nanoseconds(sent<wire::Preempt>().at(0).second.grace_ns), 4s);
  all_save_and_leave();
  EXPECT_EQ(job.verdict().exit_code, kExitPreempted);
}

TEST_F(TimeLimitTest, GivesALaterNoticeToRanksThatCouldNotTakeItWhenItWasDue) {
  const TimePoint start = now;
  run();
  while (now < start + 17s) pass(500ms);
  EXPECT_TRUE(sent<wire::Preempt>().empty());
  all_can();
  ASSERT_EQ(sent<wire::Preempt>().size(), 2U);
  EXPECT_EQ(std::chrono::nanoseconds(sent<wire::Preempt>()[0].second.grace_ns), 3s);
  reported(3, "hello", 0, "stacks preemption");
  EXPECT_TRUE(sent<wire::Preempt>().empty()) << "once";
  all_save_and_leave();
  EXPECT_EQ(job.verdict().exit_code, kExitPreempted);
}

TEST_F(ShortTimeLimitTest, GivesNoticeNotBeforeHalfOfTheTime) {
  const TimePoint start = now;
  run();
  all_can();
  while (sent<wire::Preempt>().empty() && now < start + 1min) pass(500ms);
  EXPECT_EQ(now - start, 3s);
}

TEST_F(TimeLimitTest, StopsWorkersThatCannotTakeANoticeAndEndsWith124) {
  const TimePoint start = now;
  run();
  while (sent<wire::StopWorkers>().empty() && now < start + 1min) pass(500ms);
  EXPECT_EQ(now - start, 20s);
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0, SIGTERM, true);
  empty_all();
  EXPECT_EQ(job.verdict().exit_code, kExitTimeOut);
  EXPECT_EQ(job.verdict().kind, Verdict::Kind::kTimeLimit);
}

TEST_F(TimeLimitTest, EndsWith75WhenACheckpointWasCommittedOnNotice) {
  const TimePoint start = now;
  run();
  all_can();
  while (sent<wire::Preempt>().empty() && now < start + 1min) pass(500ms);
  reported(0, "committed", 60);
  while (sent<wire::StopWorkers>().empty() && now < start + 1min) pass(500ms);
  EXPECT_EQ(now - start, 20s);
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0, SIGTERM, true);
  empty_all();
  EXPECT_EQ(job.verdict().kind, Verdict::Kind::kTimeLimit);
  EXPECT_EQ(job.verdict().exit_code, kExitPreempted);
}

TEST_F(TimeLimitTest, ForbidsARestartOfAnAttemptThatIsBeingStopped) {
  const TimePoint start = now;
  run();
  while (now < start + 19s) pass(500ms);
  worker_exits(2, 3);
  while (now < start + 21s) pass(500ms);
  empty_all();
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, kExitTimeOut);
  EXPECT_EQ(job.verdict().rank, Rank(2));
}

TEST_F(TimeLimitTest, EndsWith75WhenAWorkerFailsAfterTheCommitOnNotice) {
  const TimePoint start = now;
  run();
  all_can();
  while (sent<wire::Preempt>().empty() && now < start + 1min) pass(500ms);
  reported(0, "committed", 60);
  worker_exits(2, 3);
  empty_all();
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, kExitPreempted);
  EXPECT_EQ(job.verdict().rank, Rank(2));
}

TEST(Notice, IsDueTheGraceBeforeTheLimitButNotBeforeHalfOfIt) {
  const TimePoint start{100s};
  EXPECT_EQ(notice_time(start, 1h, 30s), start + 1h - 30s);
  EXPECT_EQ(notice_time(start, 40s, 30s), start + 20s);
}

}  // namespace
}  // namespace muster::launcher
