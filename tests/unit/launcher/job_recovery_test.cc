// The job after a failure: sizes, budgets, back-off.
#include "tests/unit/launcher/job_fixture.h"

namespace muster::launcher {
namespace {

class ElasticTest : public JobTest {
 protected:
  ElasticTest() : JobTest(two_nodes_with(1, 0)) {}
  void lose(int node) {
    end_agent(node, "its agent was killed by SIGKILL");
    for (const int other : {0, 1}) {
      if (other != node && job.phase() == Phase::kStopping) empty(other);
    }
    happen(LeftoversSeen{});
  }
};
class PatientTest : public JobTest {
 protected:
  PatientTest() : JobTest(5) {}
};

TEST_F(JobTest, DoesNotWaitForLeftoversThatRemainBeforeAnyWorkerStarts) {
  for (const bool prepared : {false, true}) {
    anew(two_nodes_of_two(1));
    prepared ? prepare() : gather();
    end_agent(0, "died");
    EXPECT_EQ(job.phase(), Phase::kStopping);
    leftovers_remain({{.pid = 12}});
    EXPECT_EQ(job.phase(), Phase::kGathering) << prepared;
  }
}

TEST_F(JobTest, WaitsForLeftoversThatRemainUntilTheLastRankHasEnded) {
  run();
  worker_exits(2, 3);
  worker_exits(3, 0, SIGTERM, true);
  end_agent(1, "its agent was killed by SIGKILL");
  leftovers_remain({{.pid = 12}});
  EXPECT_EQ(job.phase(), Phase::kStopping);
  worker_exits(0, 0, SIGTERM, true);
  worker_exits(1, 0, SIGTERM, true);
  empty(0);
  EXPECT_EQ(job.phase(), Phase::kGathering);
  EXPECT_EQ(job.restart_count(), 1);
}

TEST_F(JobTest, DoesNotWaitForProcessesLeftBehindAtALaterLoss) {
  prepare();
  end_agent(0, "died");
  leftovers_remain({{.pid = 12}});
  greet(0);
  begin();
  start_workers();
  end_agent(1, "its agent was killed by SIGKILL");
  empty(0);
  happen(LeftoversSeen{{{.pid = 12}}, false});
  EXPECT_EQ(job.phase(), Phase::kLeaving);
}

TEST_F(JobTest, RemembersRepeatedStepsOverAnAttemptThatDidNotTrain) {
  anew(two_nodes_of_two(5));
  run();
  said(0, wire::WorkerReported{Rank(0), wire::ReportKind::kCommitted, 40, ""});
  said(1, wire::WorkerReported{Rank(2), wire::ReportKind::kStep, 57, ""});
  for (int failures = 0; failures < 2; ++failures) {
    worker_exits(2, 0, SIGKILL);
    empty_all();
    if (job.phase() != Phase::kBeginning) pass(5s);
    begin();
    start_workers();
  }
  said(0, wire::WorkerReported{Rank(0), wire::ReportKind::kResumed, 40, ""});
  ASSERT_EQ(job.history().size(), 3U);
  EXPECT_EQ(job.history()[1].repeated_steps, std::nullopt);
  EXPECT_EQ(job.history()[2].repeated_steps, 17);
}

TEST_F(ElasticTest, GoesOnWithTheNodesThatLive) {
  run();
  end_agent(0, "its agent was killed by SIGKILL");
  empty(1);
  happen(LeftoversSeen{});
  EXPECT_EQ(decided<BeginAttempt>().size(), 1U);
  happen(AttemptBegun{Attempt(2), 40});
  EXPECT_THAT(told(), HasSubstr("attempt 2 resumes from step 40 (restart 1 of 5) with 2 ranks on 1 node"));
  const auto prepared = sent<wire::PrepareAttempt>();
  ASSERT_EQ(prepared.size(), 1U);
  EXPECT_EQ(prepared[0].first, 1);
  EXPECT_EQ(prepared[0].second.world_size, 2);
  EXPECT_EQ(prepared[0].second.node_count, 1);
  EXPECT_EQ(prepared[0].second.first_rank, Rank(0));
  said(1, wire::AttemptPrepared{4711});
  ASSERT_EQ(sent<wire::StartWorkers>().size(), 1U);
  EXPECT_EQ(sent<wire::StartWorkers>()[0].second.master_port, 4711) << "the first member hosts the store";
  EXPECT_EQ(decided<StartAgent>().size(), 1U) << "for the attempt after this one";
}

TEST_F(ElasticTest, SucceedsWithFewerRanks) {
  run();
  lose(0);
  begin();
  said(1, wire::AttemptPrepared{});
  said(1, exited(0, 0));
  said(1, exited(1, 0));
  empty(1);
  EXPECT_EQ(job.verdict().exit_code, 0);
  EXPECT_EQ(job.history().back().world_size, 2);
}

TEST_F(ElasticTest, GrowsAgainAtTheNextRestart) {
  run();
  lose(0);
  begin();
  said(1, wire::AttemptPrepared{});
  greet(0);
  EXPECT_EQ(job.phase(), Phase::kRunning) << "a node that comes back does not disturb";
  said(1, exited(0, 3));
  empty(1);
  pass(2s);  // the back-off
  ASSERT_EQ(job.phase(), Phase::kBeginning);
  begin();
  EXPECT_EQ(sent<wire::PrepareAttempt>().size(), 2U);
  EXPECT_EQ(sent<wire::PrepareAttempt>()[0].second.world_size, 4);
}

class GrowingTest : public ElasticTest {
 protected:
  GrowingTest() {
    plan.max_nodes = 4;
    plan.hosts = {{.name = "h0", .slots = 2}, {.name = "h1", .slots = 2}};
    anew(plan);
  }
  static std::vector<Host> hosts(const char* text) {
    return parse_hosts(text, "hosts").value_or(std::vector<Host>());
  }
  // Why these hosts cannot be added.
  std::string refusal_of(const char* text) const {
    const auto nodes = job.addable(hosts(text));
    return nodes ? "" : nodes.error().message();
  }
  // Its workers have been told to stop.
  void end_attempt() {
    for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0, SIGTERM, true);
    empty_all();
  }
  // The number of ranks of each node that prepares an attempt.
  std::vector<std::pair<int, int>> prepared() const {
    std::vector<std::pair<int, int>> sizes;
    for (const auto& [node, attempt] : sent<wire::PrepareAttempt>())
      sizes.emplace_back(node, attempt.local_world_size);
    return sizes;
  }

  Plan plan = two_nodes_with(1, 0);
};

TEST_F(GrowingTest, AnAddedNodeStartsAtOnceAndTakesPartInTheNextAttempt) {
  run();
  happen(NodesAdded{{{"h2", 3}}});
  EXPECT_EQ(decided<StartAgent>().size(), 1U);
  EXPECT_EQ(told(), "node2 (h2) was added, and takes part from the next attempt\n");
  EXPECT_THAT(decided<Record>(), testing::ElementsAre(testing::Field(&Record::host, "h2")));
  greet(2);
  EXPECT_EQ(sent<wire::Welcome>().size(), 1U);
  EXPECT_TRUE(sent<wire::StopWorkers>().empty());
  reported(0, "committed", 5);
  EXPECT_TRUE(sent<wire::StopWorkers>().empty()) << "--grow now was not given";
  worker_exits(0, 1);
  end_attempt();
  begin();
  EXPECT_THAT(prepared(), testing::ElementsAre(std::pair(0, 2), std::pair(1, 2), std::pair(2, 3)));
  EXPECT_EQ(job.crew().world_size(), 7);
}

TEST_F(GrowingTest, GrowsAfterACommitWithoutSpendingARestart) {
  run();
  happen(NodesAdded{{{"h2", 2}}, true});
  reported(0, "committed", 5);
  EXPECT_TRUE(sent<wire::StopWorkers>().empty()) << "the node is not there yet";
  greet(2);
  reported(0, "step", 6);
  EXPECT_TRUE(sent<wire::StopWorkers>().empty()) << "no commit since then";
  reported(0, "committed", 10);
  EXPECT_EQ(sent<wire::StopWorkers>().size(), 2U);
  EXPECT_EQ(told(), "step 10 is committed: ending the attempt so that added nodes take part\n");
  end_attempt();
  happen(AttemptBegun{Attempt(2), 10});
  EXPECT_EQ(prepared().size(), 3U);
  EXPECT_THAT(told(), HasSubstr("nodes were added; attempt 2 resumes from step 10 (restart 0 of 5)"));
  EXPECT_EQ(job.history().front().verdict->kind, Verdict::Kind::kGrown);
  EXPECT_EQ(job.restart_count(), 0);
  EXPECT_EQ(sent<wire::PrepareAttempt>()[0].second.restart_count, 1)
      << "workers learn that they do not start from the beginning";
}

TEST_F(GrowingTest, ASignalWhileItStopsToGrowEndsTheJob) {
  run();
  happen(NodesAdded{{{"h2", 2}}, true});
  greet(2);
  reported(0, "committed", 10);
  happen(Interrupted{SIGINT});
  end_attempt();
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, 130);
}

TEST_F(GrowingTest, OnlyAnElasticJobWithRoomTakesNodes) {
  run();
  EXPECT_TRUE(job.addable(hosts("h2,h3")));
  EXPECT_THAT(refusal_of("h2,h3,h4"), HasSubstr("2 of at most 4 nodes (--nodes MIN:MAX): add at most 2"));
  happen(NodesAdded{{{"h2", 2}, {"h3", 2}}});
  EXPECT_EQ(decided<StartAgent>().size(), 2U);
  EXPECT_THAT(refusal_of("h4"), HasSubstr("4 of at most 4 nodes (--nodes MIN:MAX): it is full"));
  happen(NodesAdded{{{"h4", 2}}});
  EXPECT_TRUE(decided<StartAgent>().empty());
  plan.min_nodes.reset();
  anew(plan);
  EXPECT_THAT(refusal_of("h2"), HasSubstr("a fixed number of nodes"));
  plan.remote.bootstrap = BootstrapKind::kDocker;
  anew(plan);
  EXPECT_THAT(refusal_of("h2"), HasSubstr("runs in containers on the launcher's machine"));
  anew(two_nodes_with(1, 0));
  EXPECT_THAT(refusal_of("h2"), HasSubstr("has no hosts"));
}

TEST_F(GrowingTest, AHostThatIsAddedHasAsManySlotsAsTheFirstUnlessItsNumberIsGiven) {
  run();
  const auto nodes = job.addable(hosts("h2,h3:7"));
  ASSERT_EQ(nodes->size(), 2U);
  EXPECT_EQ((*nodes)[0].slots, 2);
  EXPECT_EQ((*nodes)[1].slots, 7);
}

TEST_F(GrowingTest, AHostIsAddedOnceAndWithNoMoreWorkersThanAJobMayHave) {
  run();
  EXPECT_EQ(refusal_of("h1"), "h1 is already in the job, as node1");
  happen(NodesAdded{{{"h2", 2}}});
  EXPECT_EQ(refusal_of("h2"), "h2 is already in the job, as node2");
  happen(NodesAdded{{{"h2", 2}}});
  EXPECT_TRUE(decided<StartAgent>().empty());
  happen(NodesAdded{{{"h3", kMostSlots + 1}}});
  EXPECT_TRUE(decided<StartAgent>().empty());
  plan.max_nodes = 40;
  anew(plan);
  run();
  EXPECT_TRUE(job.addable(hosts("n[1-24]:4096")));
  EXPECT_EQ(refusal_of("n[1-25]:4096"), "the job would have 102404 workers; the maximum is 100000");
}

TEST_F(ElasticTest, WaitsWhenFewerThanItsMinimumLive) {
  run();
  end_agent(0, "died");
  end_agent(1, "died");
  happen(LeftoversSeen{});
  EXPECT_EQ(job.phase(), Phase::kGathering);
  EXPECT_EQ(decided<StartAgent>().size(), 2U);
  greet(1);
  EXPECT_EQ(job.phase(), Phase::kBeginning);
}

TEST_F(ElasticTest, DoesNotStartTheAgentOfANodeThatWasLostTwice) {
  run();
  lose(0);
  begin();
  said(1, wire::AttemptPrepared{});
  greet(0);
  said(1, exited(0, 3));
  empty(1);
  pass(2s);
  begin();
  start_workers();
  end_agent(0, "its agent was killed by SIGKILL");
  empty(1);
  happen(LeftoversSeen{});
  EXPECT_TRUE(decided<StartAgent>().empty());
  pass(5s);
  ASSERT_EQ(job.phase(), Phase::kBeginning);
  begin();
  said(1, wire::AttemptPrepared{});
  EXPECT_EQ(job.phase(), Phase::kRunning);
  EXPECT_TRUE(decided<StartAgent>().empty());
}

TEST_F(PatientTest, RestartsAtOnceFirstAndLaterAfterADelay) {
  run();
  worker_exits(2, 3);
  empty_all();
  ASSERT_EQ(job.phase(), Phase::kBeginning) << "at once";
  begin();
  start_workers();
  worker_exits(2, 4);
  empty_all();
  EXPECT_EQ(job.phase(), Phase::kGathering);
  EXPECT_THAT(told(), HasSubstr("retrying in "));
  ASSERT_TRUE(next_deadline());
  pass(1300ms);
  EXPECT_EQ(job.phase(), Phase::kBeginning);
}

TEST_F(PatientTest, RestartsAtOnceAfterANewCheckpoint) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    if (attempt == 0) gather();
    begin();
    start_workers();
    reported(0, "committed", attempt);
    worker_exits(2, 3);
    empty_all();
    ASSERT_EQ(job.phase(), Phase::kBeginning) << attempt;
  }
}

TEST_F(PatientTest, RestartsAtOnceAfterAStepBeyondTheLast) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    if (attempt == 0) gather();
    begin();
    start_workers();
    reported(2, "step", attempt);
    worker_exits(2, 3);
    empty_all();
    ASSERT_EQ(job.phase(), Phase::kBeginning) << attempt;
  }
}

TEST_F(PatientTest, AWorkerThatIsKilledAgainAndAgainIsReplacedAtOnceUntilTheBudgetIsSpent) {
  run();
  for (int death = 1; death <= 5; ++death) {
    pass(3s);
    worker_exits(2, 0, SIGKILL);
    empty_all();
    ASSERT_EQ(job.phase(), Phase::kBeginning) << death;
    begin();
    start_workers();
  }
  pass(3s);
  worker_exits(2, 0, SIGKILL);
  empty_all();
  EXPECT_EQ(job.verdict().exit_code, 128 + SIGKILL);
  EXPECT_EQ(job.verdict().gave_up, Verdict::GaveUp::kBudget);
}

TEST_F(PatientTest, ARestartThatCannotBeginIsTriedAgainUntilItCan) {
  const AttemptDenied full{AttemptDenied::By::kDisk, Error(ErrorCode::kInternal, "no space left")};
  run();
  worker_exits(2, 3);
  empty_all();
  for (int attempt = 0; attempt < 3; ++attempt) {
    happen(full);
    ASSERT_EQ(job.phase(), Phase::kGathering) << attempt;
    EXPECT_THAT(told(), HasSubstr("no space left; retrying in "));
    pass(20s);
    ASSERT_EQ(job.phase(), Phase::kBeginning) << attempt;
  }
  begin();
  EXPECT_THAT(told(), HasSubstr("rank 2 (node1) exited with code 3; attempt 2 begins; no Muster checkpoint"))
      << "the cause of the restart";
  EXPECT_EQ(job.restart_count(), 4);
}

TEST_F(PatientTest, AnAgentThatCannotBeStartedIsStartedAgainWhenTheBackOffIsOver) {
  happen(Began{});
  greet(1);
  for (int loss = 1; loss <= 3; ++loss) {
    end_agent(0, "cannot be started");
    happen(LeftoversSeen{});
    EXPECT_EQ(decided<StartAgent>().size(), 0U) << loss;
    EXPECT_EQ(job.phase(), Phase::kGathering);
    pass(6s);
    EXPECT_EQ(decided<StartAgent>().size(), 1U) << loss;
  }
}

TEST_F(PatientTest, AStoppedWorkerDoesNotCountAsARepeatedFailure) {
  run();
  for (int stop = 1; stop <= 4; ++stop) {
    pass(3s);
    wire::WorkerStalled stalled;
    stalled.rank = Rank(2);
    stalled.hard = stalled.stopped = true;
    stalled.what = "is stopped (SIGSTOP) for 3 s";
    stalled.since_ns = std::chrono::nanoseconds(now.time_since_epoch()).count();
    said(1, stalled);
    pass(3s);  // the stacks do not arrive
    for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0, SIGTERM, true);
    empty_all();
    ASSERT_EQ(job.phase(), Phase::kBeginning) << stop;
    begin();
    start_workers();
  }
}

TEST_F(PatientTest, ALateStartDoesNotCountAsTheLifeOfAWorker) {
  run();
  pass(31s);
  for (const int node : {0, 1}) said(node, wire::WorkersStarted{});
  pass(1s);
  worker_exits(1, 2);
  empty_all();
  EXPECT_EQ(job.verdict().exit_code, 2);
  EXPECT_EQ(job.restart_count(), 0) << "exit code 2 after a second is wrong usage";
}

TEST_F(PatientTest, DoesNotRetryWrongUsage) {
  run();
  worker_exits(2, kExitUsage);
  empty_all();
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, kExitUsage);
  EXPECT_EQ(job.verdict().gave_up, Verdict::GaveUp::kNot);
  EXPECT_EQ(job.restart_count(), 0);
}

TEST_F(PatientTest, StopsWithTheCulpritsCodeWhenTheSameFailureComesAgainAndAgain) {
  run();
  for (int attempt = 1; attempt <= 3; ++attempt) {
    if (attempt > 1) {
      pass(3s);
      begin();
      start_workers();
    }
    worker_exits(2, 3);
    empty_all();
  }
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, 3);
  EXPECT_EQ(job.verdict().kind, Verdict::Kind::kExit);
  EXPECT_EQ(job.verdict().gave_up, Verdict::GaveUp::kNoProgress);
  EXPECT_EQ(job.verdict().origin, "worker");
  EXPECT_EQ(job.verdict().rank, Rank(2));
  EXPECT_EQ(job.verdict().cause, "rank 2 (node1) exited with code 3");
  EXPECT_EQ(job.restart_count(), 2);
}

TEST_F(PatientTest, RetriesAFailureBeforeTheFirstStepOnlyOnce) {
  const auto fails = [&] {
    reported(2, "step", 0);  // reported by a Checkpointer before the first step
    wire::WorkerExited bad = exited(2, 1);
    bad.last_lines = {"ModuleNotFoundError: No module named 'nothing'"};
    said(1, bad);
    empty_all();
  };
  run();
  fails();
  begin();
  start_workers();
  fails();
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().gave_up, Verdict::GaveUp::kNoProgress);
  EXPECT_EQ(job.restart_count(), 1);
}

TEST_F(PatientTest, AStepMakesTheFailureDifferent) {
  for (int attempt = 1; attempt <= 2; ++attempt) {
    if (attempt == 1) run();
    reported(2, "step", 1);
    wire::WorkerExited bad = exited(2, 1);
    bad.last_lines = {"ValueError: no"};
    said(1, bad);
    empty_all();
    if (attempt == 2) break;
    begin();
    start_workers();
  }
  EXPECT_EQ(job.restart_count(), 2);
}

TEST_F(PatientTest, ASignalDuringTheBackOffEndsTheJobAndKeepsTheCulprit) {
  run();
  worker_exits(2, 3);
  empty_all();
  begin();
  start_workers();
  worker_exits(2, 4);
  empty_all();
  happen(Interrupted{SIGINT});
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, 130);
  EXPECT_EQ(job.verdict().rank, Rank(2));
}

TEST_F(PatientTest, RecordsWhatHappened) {
  run();
  worker_exits(2, 3);
  std::vector<std::string> events;
  for (const Record& record : decided<Record>()) events.push_back(record.event);
  EXPECT_THAT(events, testing::ElementsAre("worker_exited"));
  EXPECT_EQ(decided<Record>()[0].rank, Rank(2));
  EXPECT_EQ(decided<Record>()[0].node, NodeId(1));
  EXPECT_EQ(decided<Record>()[0].text, "exited with code 3");
}

TEST_F(JobTest, CommitsACheckpointWhenTheLastRankHasSaved) {
  run();
  for (const int rank : {0, 1, 2}) reported(rank, "saved", 40);
  for (const int rank : {0, 1, 2}) reported(rank, "saved", 50);
  reported(0, "saved", 40);
  EXPECT_EQ(job.steps().committed(), std::nullopt) << "rank 3 has saved nothing";
  reported(3, "saved", 40);
  EXPECT_EQ(job.steps().committed(), 40);
  EXPECT_THAT(decided<Record>(), testing::Contains(testing::AllOf(testing::Field(&Record::event, "committed"),
                                                                  testing::Field(&Record::text, "step 40"))));
  EXPECT_EQ(job.steps().commit_count(), 1);
  reported(3, "saved", 45);
  EXPECT_EQ(job.steps().commit_count(), 1);
  reported(3, "saved", 50);
  EXPECT_EQ(job.steps().committed(), 50);
}

TEST_F(JobTest, PartialCheckpointsOfAnAttemptDoNotCountInTheNext) {
  run();
  for (const int rank : {0, 1, 2}) reported(rank, "saved", 40);
  worker_exits(2, 0, SIGKILL);
  empty_all();
  begin();
  start_workers();
  reported(3, "saved", 40);
  EXPECT_EQ(job.steps().committed(), std::nullopt);
}

TEST_F(JobTest, AProgramWithoutTheRuntimeResumesFromItsOwnCommit) {
  run();
  reported(0, "committed", 40);
  reported(0, "committed", 60);
  worker_exits(2, 0, SIGKILL);
  empty_all();
  happen(AttemptBegun{Attempt(2), std::nullopt});
  EXPECT_THAT(told(), HasSubstr("attempt 2 can resume from step 60"));
  start_workers();
  EXPECT_EQ(sent<wire::StartWorkers>().at(0).second.resume_step, 60U);
}

TEST_F(JobTest, TheCheckpointDirectoryWinsOverReports) {
  run();
  reported(0, "committed", 60);
  worker_exits(2, 0, SIGKILL);
  empty_all();
  happen(AttemptBegun{Attempt(2), 40});
  EXPECT_THAT(told(), HasSubstr("attempt 2 resumes from step 40"));
  start_workers();
  EXPECT_EQ(sent<wire::StartWorkers>().at(0).second.resume_step, 40U);
}

}  // namespace
}  // namespace muster::launcher
