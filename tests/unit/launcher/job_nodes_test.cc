// The nodes that a job continues with after losses: spares, nodes that come back, excluded nodes; and how
// losses at the same time count.
#include "launcher/core/job/recruiter.h"
#include "tests/unit/launcher/job_fixture.h"

namespace muster::launcher {
namespace {

class SpareTest : public JobTest {
 protected:
  SpareTest() : JobTest(two_nodes_with(2, 1)) {}
};

TEST(Recruiter, HiresExcludedNodesWhileTooFewAreThere) {
  constexpr TimePoint kNow{1000s};
  Fleet fleet({.exclusion = {.window = 10min, .exclusion = 10min}});
  Recruiter recruiter(two_nodes_with(2, 1), fleet);
  const auto join = [&](NodeId node) {
    if (!fleet.alive(node)) fleet.hire(node, kNow, "again");
    wire::Hello hello;
    hello.node = node;
    hello.incarnation = Incarnation(1);
    while (!fleet.listens_to({node, hello.incarnation})) hello.incarnation = hello.incarnation.next();
    fleet.on(AgentSaid{{node, hello.incarnation}, Attempt(), hello}, kNow);
    ASSERT_EQ(fleet.presence(node), Fleet::Presence::kThere);
  };
  EXPECT_EQ(recruiter.hire_absent(kNow).size(), 3U);
  for (const NodeId lost : {NodeId(1), NodeId(1), NodeId(2), NodeId(2)}) {
    join(lost);
    fleet.drop(lost, kNow, "it is late", kNow);
  }
  ASSERT_EQ(fleet.excluded(kNow).size(), 2U);
  join(NodeId(0));
  EXPECT_EQ(recruiter.hire_absent(kNow).size(), 2U) << "two nodes are needed";
  join(NodeId(1));
  fleet.drop(NodeId(2), kNow, "it is late", kNow);
  EXPECT_TRUE(recruiter.hire_absent(kNow).empty()) << "two are there, though one is excluded";
  fleet.drop(NodeId(0), kNow, "it is late", kNow);
  EXPECT_EQ(recruiter.hire_absent(kNow).size(), 2U) << "a node on its way may never join";
}

// The agent does not hear its launcher, but the launcher hears the agent.
TEST_F(JobTest, ANodeWhoseAgentStopsItsWorkersUnaskedIsLostAndNotEmptied) {
  run();
  worker_exits(0, 0);
  worker_exits(1, 0);
  empty(0);
  worker_exits(2, 0, SIGTERM, /*after_stop=*/true);
  worker_exits(3, 0, SIGTERM, /*after_stop=*/true);
  empty(1);
  EXPECT_EQ(job.phase(), Phase::kStopping);
  end_agent(1, "its agent exited with code 1");
  happen(LeftoversSeen{});
  EXPECT_THAT(job.verdict().cause, HasSubstr("node1 was lost: its agent exited with code 1"));
}

TEST_F(SpareTest, ASpareIsWelcomedAndWaits) {
  gather();
  greet(2);
  EXPECT_EQ(sent<wire::Welcome>().size(), 1U);
  begin();
  EXPECT_EQ(sent<wire::PrepareAttempt>().size(), 2U) << "the spare does not take part";
}

TEST_F(SpareTest, ASpareIsToldToStandByOnceTheWorkersStart) {
  gather();
  greet(2);
  begin();
  EXPECT_TRUE(sent<wire::StandBy>().empty()) << "the workers start first";
  start_workers();
  const auto told = sent<wire::StandBy>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].first, 2);
  EXPECT_EQ(told[0].second.local_world_size, 2);
  EXPECT_EQ(told[0].second.agents_on_host, 2);
  EXPECT_EQ(told[0].second.agent_on_host, 1);
}

TEST_F(SpareTest, ASpareThatJoinsLaterIsToldAtOnce) {
  gather();
  begin();
  start_workers();
  EXPECT_TRUE(sent<wire::StandBy>().empty());
  greet(2);
  EXPECT_EQ(sent<wire::StandBy>().size(), 1U);
}

TEST_F(SpareTest, ASpareTakesTheLostNodesPlaceAtOnce) {
  gather();
  greet(2);
  begin();
  start_workers();
  end_agent(0, "its agent was killed by SIGKILL");
  empty(1);
  happen(LeftoversSeen{});
  EXPECT_EQ(decided<BeginAttempt>().size(), 1U) << "it waits for no node";
  EXPECT_TRUE(decided<StartAgent>().empty());
  begin();
  const auto prepared = sent<wire::PrepareAttempt>();
  ASSERT_EQ(prepared.size(), 2U);
  EXPECT_EQ(prepared[0].first, 1);
  EXPECT_EQ(prepared[0].second.first_rank, Rank(0));
  EXPECT_TRUE(prepared[0].second.host_store);
  EXPECT_EQ(prepared[1].first, 2);
  EXPECT_EQ(prepared[1].second.first_rank, Rank(2));
  EXPECT_EQ(prepared[1].second.agent_on_host, 1);
  EXPECT_EQ(prepared[1].second.agents_on_host, 2);
  said(1, wire::AttemptPrepared{4711});
  said(2, wire::AttemptPrepared{});
  EXPECT_EQ(sent<wire::StartWorkers>().size(), 2U);
  ASSERT_EQ(decided<StartAgent>().size(), 1U) << "the lost agent is started again, but after the workers";
  EXPECT_EQ(decided<StartAgent>()[0].agent.node, NodeId(0));
  EXPECT_TRUE(std::holds_alternative<StartAgent>(last.back().action));
}

TEST_F(SpareTest, LosingASpareDoesNotDisturbTheAttempt) {
  gather();
  greet(2);
  begin();
  start_workers();
  end_agent(2, "its agent was killed by SIGKILL");
  EXPECT_EQ(job.phase(), Phase::kRunning);
  happen(LeftoversSeen{});
  EXPECT_EQ(job.phase(), Phase::kRunning);
  worker_exits(2, 3);
  empty_all();
  begin();
  start_workers();
  EXPECT_EQ(decided<StartAgent>().size(), 1U) << "a new one can start at the restart";
  EXPECT_EQ(job.restart_count(), 1);
}

TEST_F(SpareTest, ASpareThatIsLostWhileGatheringIsNotWaitedFor) {
  happen(Began{});
  end_agent(2, "died");
  EXPECT_EQ(job.phase(), Phase::kGathering);
  happen(LeftoversSeen{});
  greet(0);
  greet(1);
  EXPECT_EQ(job.phase(), Phase::kBeginning);
  EXPECT_EQ(job.restart_count(), 0);
}

// Two nodes and two spares; one node is enough to continue.
class TogetherTest : public JobTest {
 protected:
  TogetherTest() : JobTest(two_nodes_with(2, 2, 1)) {}
  // All nodes are there, and workers run on the first two.
  void run_with_spares() {
    gather();
    greet(2);
    greet(3);
    begin();
    start_workers();
    ASSERT_EQ(job.phase(), Phase::kRunning);
  }
  void kill_agent(int node) {
    end_agent(node, "its agent was killed by SIGKILL");
    happen(LeftoversSeen{});
  }
};

TEST_F(TogetherTest, NodesThatAreLostTogetherUseOneRestart) {
  run_with_spares();
  end_agent(1, "its agent was killed by SIGKILL");
  empty(0);
  happen(LeftoversSeen{});
  ASSERT_EQ(job.phase(), Phase::kBeginning) << "with node2";
  kill_agent(2);
  ASSERT_EQ(job.phase(), Phase::kBeginning) << "with node3";
  begin();
  ASSERT_EQ(job.phase(), Phase::kPreparing);
  kill_agent(3);
  EXPECT_EQ(job.phase(), Phase::kGathering);
  kill_agent(0);
  EXPECT_EQ(job.phase(), Phase::kGathering) << "all are started again";
  greet(1);
  greet(2);
  begin();
  EXPECT_THAT(told(), HasSubstr("node1 was lost: its agent was killed by SIGKILL; attempt 3"));
  EXPECT_THAT(told(), HasSubstr("(restart 1 of 1)"));
  EXPECT_EQ(job.restart_count(), 1);
}

TEST_F(TogetherTest, ANodeThatIsLostAfterWorkersWereStartedUsesAnotherRestart) {
  run_with_spares();
  end_agent(1, "its agent was killed by SIGKILL");
  empty(0);
  happen(LeftoversSeen{});
  begin();
  said(0, wire::AttemptPrepared{4711});
  said(2, wire::AttemptPrepared{});
  ASSERT_EQ(job.phase(), Phase::kRunning);
  end_agent(2, "its agent was killed by SIGKILL");
  empty(0);
  happen(LeftoversSeen{});
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().gave_up, Verdict::GaveUp::kBudget);
}

TEST_F(TogetherTest, ANodeThatIsLostLongAfterTheRestartUsesAnotherRestart) {
  run_with_spares();
  end_agent(1, "its agent was killed by SIGKILL");
  empty(0);
  happen(LeftoversSeen{});
  begin();
  now += RestartPolicy::kTogether + 1s;
  for (const int node : {0, 2, 3}) said(node, wire::Pong{});
  kill_agent(2);
  EXPECT_EQ(job.phase(), Phase::kLeaving);
}

TEST_F(TogetherTest, AnAgentThatCannotBeStartedUsesAnotherRestart) {
  run_with_spares();
  for (const int node : {1, 2, 3}) end_agent(node, "its agent was killed by SIGKILL");
  empty(0);
  happen(LeftoversSeen{});
  ASSERT_EQ(job.phase(), Phase::kGathering);
  for (const int node : {1, 2}) end_agent(node, "cannot be started");
  EXPECT_EQ(job.phase(), Phase::kGathering) << "node3 may still join";
  end_agent(3, "cannot be started");
  happen(LeftoversSeen{});
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().gave_up, Verdict::GaveUp::kBudget);
}

// The host of node 1 is away for a while, and the spare takes its place.
TEST_F(SpareTest, AHostThatIsBackReplacesOneThatIsLostLater) {
  gather();
  greet(2);
  begin();
  start_workers();
  end_agent(1, "no route to host");
  empty(0);
  happen(LeftoversSeen{});
  begin();
  said(0, wire::AttemptPrepared{4711});
  said(2, wire::AttemptPrepared{});
  end_agent(1, "no route to host");
  happen(LeftoversSeen{});
  ASSERT_EQ(job.phase(), Phase::kRunning);
  pass(1s);
  end_agent(0, "no route to host");
  empty(2);
  happen(LeftoversSeen{});
  ASSERT_EQ(job.phase(), Phase::kGathering);
  EXPECT_EQ(decided<StartAgent>().size(), 2U) << "each of them may be back";
  end_agent(0, "no route to host");
  happen(LeftoversSeen{});
  ASSERT_EQ(job.phase(), Phase::kGathering);
  greet(1);
  begin();
  EXPECT_EQ(sent<wire::PrepareAttempt>().size(), 2U);
  EXPECT_EQ(job.restart_count(), 2);
}

TEST_F(SpareTest, AnExcludedNodeTakesPartIfTheOthersCannotBeStarted) {
  gather();
  greet(2);
  begin();
  start_workers();
  // Lost twice while it takes part, once of them as a spare.
  end_agent(1, "died");
  empty(0);
  happen(LeftoversSeen{});
  begin();
  said(0, wire::AttemptPrepared{4711});
  said(2, wire::AttemptPrepared{});
  greet(1);
  end_agent(1, "died");
  happen(LeftoversSeen{});
  ASSERT_EQ(job.phase(), Phase::kRunning);
  end_agent(0, "no route to host");
  empty(2);
  happen(LeftoversSeen{});
  EXPECT_EQ(decided<StartAgent>().size(), 2U);
  greet(1);
  EXPECT_EQ(job.phase(), Phase::kGathering) << "the job waits for node0";
  end_agent(0, "no route to host");
  ASSERT_EQ(job.phase(), Phase::kBeginning);
  begin();
  EXPECT_THAT(told(), HasSubstr("node0 was lost"));
  EXPECT_EQ(sent<wire::PrepareAttempt>().size(), 2U);
  EXPECT_EQ(job.restart_count(), 2);
}

TEST_F(SpareTest, ASpareTakesThePlaceOfANodeThatRefusesARestart) {
  gather();
  greet(2);
  begin();
  start_workers();
  worker_exits(2, 3);
  empty_all();
  begin();
  said(1, wire::AttemptRefused{127, "train: not found"});
  EXPECT_EQ(decided<KillAgent>().size(), 1U);
  happen(LeftoversSeen{});
  ASSERT_EQ(job.phase(), Phase::kBeginning);
  begin();
  ASSERT_EQ(sent<wire::PrepareAttempt>().size(), 2U);
  EXPECT_EQ(sent<wire::PrepareAttempt>()[0].first, 0);
  EXPECT_EQ(sent<wire::PrepareAttempt>()[1].first, 2);
}

}  // namespace
}  // namespace muster::launcher
