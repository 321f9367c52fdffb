// How fleet and job handle events together.
#include "launcher/core/controller.h"

#include "tests/unit/launcher/job_fixture.h"

namespace muster::launcher {
namespace {

class ControllerTest : public JobTest {};

TEST_F(ControllerTest, IgnoresNodesThatTakeNoPart) {
  run();
  happen(AgentSaid{AgentId{NodeId(7), Incarnation(1)}, job.attempt(), wire::WorkersStarted{.pids = {90}}});
  said(0, Attempt(9), wire::WorkersStarted{.pids = {90}});
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(controller->ranks().find(Rank(rank)), nullptr);
  said(1, wire::WorkersStarted{.pids = {70, 71}});
  EXPECT_EQ(controller->ranks().find(Rank(3))->pid, 71);
}

TEST_F(ControllerTest, AnAgentSpeaksForItsOwnRanksOnly) {
  run();
  for (const int rank : {0, 99, -1}) {
    wire::WorkerReported report{Rank(rank), wire::ReportKind::kStep, 7, ""};
    report.busy_ns = 1;
    said(1, report);
    EXPECT_EQ(controller->ranks().find(Rank(rank)), nullptr);
  }
  reported(0, "step", 3);
  said(1, wire::WorkerReported{Rank(0), wire::ReportKind::kStep, 9, ""});
  worker_exits(2, 3);
  EXPECT_EQ(job.steps().by_rank().at(Rank(0)), 3) << "the held report comes from the rank's own agent";
  said(0, wire::WorkersStarted{.pids = {70, 71, 72}});
  EXPECT_EQ(controller->ranks().find(Rank(2))->pid, 0);
}

TEST_F(ControllerTest, LimitsTheTimeOfAnEndlessStep) {
  run();
  for (int step = 1; step <= 200; ++step) {
    for (int rank = 0; rank < 4; ++rank) {
      wire::WorkerReported report{Rank(rank), wire::ReportKind::kStep, step, ""};
      report.busy_ns = rank == 0 ? std::numeric_limits<std::int64_t>::max() : 1'000'000;
      said(rank / 2, report);
    }
  }
  worker_exits(2, 3);
  ASSERT_EQ(job.history().back().stragglers.size(), 1U);
  EXPECT_EQ(job.history().back().stragglers[0].rank, Rank(0));
}

TEST_F(ControllerTest, IgnoresTheChangedPaceOfAnUnknownRank) {
  happen(PaceChanged{Rank(0), true, 9ms, 3ms, 7});
  EXPECT_TRUE(last.empty()) << "no attempt has begun";
  run();
  for (const int rank : {-1, 4}) {
    happen(PaceChanged{Rank(rank), true, 9ms, 3ms, 7});
    EXPECT_TRUE(last.empty()) << rank;
  }
  happen(PaceChanged{Rank(3), true, 9ms, 3ms, 7});
  EXPECT_THAT(told(), HasSubstr("rank 3 (node1) is slower"));
}

TEST_F(ControllerTest, IgnoresNegativeSteps) {
  run();
  reported(0, "step", 3);
  worker_exits(2, 3);
  empty_all();
  begin();
  start_workers();
  for (const char* kind : {"resumed", "committed", "step"})
    reported(0, kind, std::numeric_limits<std::int64_t>::min());
  worker_exits(2, 3);
  EXPECT_EQ(job.history().back().repeated_steps, std::nullopt);
  EXPECT_EQ(job.steps().committed(), std::nullopt);
  EXPECT_TRUE(job.steps().by_rank().empty());
  EXPECT_EQ(controller->ranks().find(Rank(0))->resumed_step, std::nullopt);
}

TEST_F(ControllerTest, IgnoresMessagesOfAReplacedAgent) {
  run();
  const AgentId old = agent(1);
  end_agent(1, "its agent was killed by SIGKILL");
  empty(0);
  happen(LeftoversSeen{});
  ASSERT_EQ(agent(1).incarnation, Incarnation(2));
  greet(1);
  begin();
  happen(AgentSaid{old, job.attempt(), wire::AttemptRefused{1, "no"}});
  EXPECT_TRUE(last.empty());
  happen(ProcessEnded{old, "its agent was killed by SIGKILL"});
  EXPECT_EQ(job.phase(), Phase::kPreparing);
}

TEST_F(ControllerTest, AnAnswerToAnotherQuestionChangesNothing) {
  gather();
  controller->on(AttemptBegun{Attempt(1), std::nullopt, Question(9)}, now);
  EXPECT_EQ(job.phase(), Phase::kBeginning);
  happen(AttemptBegun{Attempt(1), std::nullopt});
  EXPECT_EQ(job.phase(), Phase::kPreparing);
}

TEST_F(ControllerTest, TheNextAttemptFollowsOneThatBeganTooLate) {
  gather();
  end_agent(0, "died");
  happen(AttemptBegun{Attempt(4), std::nullopt});
  EXPECT_EQ(job.attempt(), Attempt()) << "the attempt was given up before";
  happen(LeftoversSeen{});
  greet(0);
  ASSERT_EQ(decided<BeginAttempt>().size(), 1U);
  EXPECT_EQ(decided<BeginAttempt>()[0].last, Attempt(4))
      << "otherwise it would seem to be another launch's attempt";
  EXPECT_TRUE(decided<BeginAttempt>()[0].take_over);
}

TEST_F(ControllerTest, ReusesTheAnswerToAnInterruptedBeginning) {
  gather();
  end_agent(0, "died");
  happen(LeftoversSeen{});
  greet(0);
  EXPECT_EQ(job.phase(), Phase::kBeginning);
  EXPECT_TRUE(decided<BeginAttempt>().empty()) << "the attempt is beginning";
  happen(AttemptBegun{Attempt(4), std::nullopt});
  EXPECT_EQ(job.phase(), Phase::kPreparing);
}

TEST_F(ControllerTest, AJobWithoutACheckpointDirectoryCountsItsAttemptsByItself) {
  Plan plan = two_nodes_of_two(1);
  plan.job.checkpoint_directory.clear();
  anew(plan);
  gather();
  EXPECT_EQ(job.phase(), Phase::kPreparing);
  EXPECT_EQ(job.attempt(), Attempt(1));
  start_workers();
  worker_exits(2, 3);
  empty_all();
  EXPECT_EQ(job.attempt(), Attempt(2));
  std::map<std::string, Attempt> attempts;
  for (const Record& record : decided<Record>()) attempts[record.event] = record.attempt;
  EXPECT_EQ(attempts["attempt_ended"], Attempt(1)) << "although the next attempt has already begun";
  EXPECT_EQ(attempts["restart"], Attempt(1));
  EXPECT_EQ(attempts["attempt_begun"], Attempt(2));
}

TEST_F(ControllerTest, OutputIsASignOfLifeWithFewEvents) {
  run();
  int applied = 0;
  controller->set_witness(
      [&applied](const Controller&, const Event&, TimePoint, const Decisions&) { ++applied; });
  const TimePoint end = now + 3s;  // longer than the silence limit
  while (now < end) {
    now += 1ms;
    for (const int node : {0, 1}) said(node, wire::Output{});
    happen(TimePassed{});
  }
  EXPECT_EQ(job.phase(), Phase::kRunning);
  EXPECT_LE(applied, 2 * 31);
}

TEST_F(ControllerTest, RemembersTheNewestCheckpointOfAnyAttempt) {
  run();
  reported(0, "committed", 300);
  worker_exits(2, 3);
  empty_all();
  begin();
  EXPECT_EQ(job.steps().committed(), std::nullopt);
  EXPECT_EQ(job.steps().committed_ever(), 300);
}

// Ten thousand nodes with one worker each: no event may take time for each node.
TEST_F(ControllerTest, TenThousandNodesGoThroughAnAttempt) {
  constexpr int kNodes = 10'000;
  Plan plan = two_nodes_of_two(0);
  plan.nodes.clear();
  for (int node = 0; node < kNodes; ++node) plan.nodes.push_back({NodeId(node), Rank(node), 1});
  anew(plan);
  happen(Began{});
  for (int node = 0; node < kNodes; ++node) greet(node);
  begin();
  for (int node = 0; node < kNodes; ++node) said(node, wire::AttemptPrepared{4711});
  ASSERT_EQ(job.phase(), Phase::kRunning);
  for (std::int64_t step = 1; step <= 10; ++step) {
    now += 100ms;
    for (int node = 0; node < kNodes; ++node)
      said(node, wire::WorkerReported{Rank(node), wire::ReportKind::kStep, step, ""});
  }
  for (int node = 0; node < kNodes; ++node) {
    said(node, exited(node, 0));
    said(node, wire::WorkersGone{});
  }
  ASSERT_EQ(job.phase(), Phase::kLeaving);
  for (int node = 0; node < kNodes; ++node) end_agent(node, "left");
  happen(LeftoversSeen{});
  EXPECT_EQ(job.phase(), Phase::kDone);
  EXPECT_EQ(job.verdict().exit_code, 0);
}

TEST(Refusal, FollowsFromTheLineagesAnswer) {
  using By = AttemptDenied::By;
  const auto refusal = [](By by, ErrorCode code) {
    return refusal_of({by, Error(code, "attempt 7 of job x"), Question()});
  };
  const Refusal newer = refusal(By::kNewerLaunch, ErrorCode::kFenced);
  EXPECT_EQ(newer.kind, Refusal::Kind::kFenced);
  EXPECT_EQ(newer.exit_code, kExitInternal);
  EXPECT_EQ(newer.message, "attempt 7 of job x; this launch does not restart anything");
  const Refusal living = refusal(By::kLivingLaunch, ErrorCode::kFenced);
  EXPECT_EQ(living.kind, Refusal::Kind::kFenced);
  EXPECT_EQ(living.exit_code, kExitUsage);
  EXPECT_EQ(living.message, "attempt 7 of job x; --take-over would stop it");
  EXPECT_EQ(refusal(By::kDisk, ErrorCode::kPermission).exit_code, kExitUsage) << "another path may work";
  EXPECT_EQ(refusal(By::kDisk, ErrorCode::kInternal).exit_code, kExitInternal);
  EXPECT_EQ(refusal(By::kDisk, ErrorCode::kInternal).kind, Refusal::Kind::kCannotStart);
}

}  // namespace
}  // namespace muster::launcher
