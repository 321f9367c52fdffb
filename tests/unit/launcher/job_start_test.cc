// How long a job waits for its nodes before it starts, and which nodes of different sizes take part.
#include "tests/unit/launcher/job_fixture.h"

namespace muster::launcher {
namespace {

using testing::ElementsAre;

// Nodes with these numbers of workers, then spares with these rooms; each on its own host.
Plan hosts_with(const std::vector<std::int32_t>& slots, std::size_t spare_count,
                std::optional<std::int32_t> min_nodes = {}) {
  Plan plan = two_nodes_of_two(5);
  plan.job.checkpoint_directory.clear();
  plan.job.limits.silence_limit = 1h;
  plan.nodes.clear();
  plan.min_nodes = min_nodes;
  plan.spare_nodes = static_cast<std::int32_t>(spare_count);
  std::int32_t rank = 0;
  for (const std::int32_t count : slots) {
    const auto node = static_cast<std::int32_t>(plan.hosts.size());
    plan.hosts.push_back({.name = fmt::format("h{}", node), .slots = count});
    if (plan.hosts.size() > slots.size() - spare_count) continue;
    plan.nodes.push_back({NodeId(node), Rank(rank), count});
    rank += count;
  }
  return plan;
}

class JobOnHosts : public JobTest {
 protected:
  explicit JobOnHosts(const Plan& plan) : JobTest(plan) {}
  // Passes time from deadline to deadline, as the performer does.
  void wait(Duration time) {
    for (const TimePoint end = now + time; now < end;) {
      const auto next = next_deadline();
      now = next && *next > now ? std::min(*next, end) : end;
      happen(TimePassed{});
    }
  }
  // "node:workers@first_rank", by rank.
  std::vector<std::string> members() const {
    std::vector<std::string> texts;
    for (const NodePlan& each : job.members())
      texts.push_back(fmt::format("{}:{}@{}", each.node, each.worker_count, each.first_rank));
    return texts;
  }
};

// A job that needs two of three nodes, with a spare.
class StartTest : public JobOnHosts {
 protected:
  StartTest() : JobOnHosts(hosts_with({2, 2, 2, 2}, 1, 2)) { happen(Began{}); }
};

TEST_F(StartTest, AllNodesAreEnoughAtOnce) {
  for (const int node : {0, 2, 1}) greet(node);
  EXPECT_THAT(members(), ElementsAre("0:2@0", "1:2@2", "2:2@4"));
  EXPECT_EQ(job.phase(), Phase::kPreparing);
  wait(700s);
  EXPECT_EQ(job.phase(), Phase::kPreparing) << "the wait is over";
}

TEST_F(StartTest, TheMinimumIsEnoughAfterTheTimeout) {
  greet(0);
  greet(2);
  wait(30s - 1ms);
  EXPECT_EQ(job.phase(), Phase::kGathering);
  EXPECT_THAT(job.waiting_for(now), HasSubstr("node1"));
  wait(1ms);
  EXPECT_EQ(job.phase(), Phase::kPreparing);
  EXPECT_THAT(members(), ElementsAre("0:2@0", "2:2@2"));
}

TEST_F(StartTest, SparesReplaceMissingNodesFirst) {
  for (const int node : {3, 0, 2}) greet(node);
  EXPECT_EQ(job.phase(), Phase::kGathering) << "a node is preferred to a spare";
  wait(30s);
  EXPECT_THAT(members(), ElementsAre("0:2@0", "2:2@2", "3:2@4"));
}

TEST_F(StartTest, EachArrivalMakesTheWaitLonger) {
  greet(0);
  wait(29s);
  greet(1);
  wait(29s);
  EXPECT_EQ(job.phase(), Phase::kGathering);
  wait(1s);
  EXPECT_THAT(members(), ElementsAre("0:2@0", "1:2@2"));
}

TEST_F(StartTest, AgentsShareAMachineEvenIfItsHostsHaveDifferentNames) {
  greet(0, "h0", {}, "m0");
  greet(1, "h1", {}, "m1");
  greet(2, "h0", {}, "m0");
  std::vector<std::string> shares;
  for (const auto& [node, prepare] : sent<wire::PrepareAttempt>())
    shares.push_back(fmt::format("{}: {} of {}", node, prepare.agent_on_host, prepare.agents_on_host));
  EXPECT_THAT(shares, ElementsAre("0: 0 of 2", "1: 0 of 1", "2: 1 of 2"));
  for (const int node : {0, 1, 2}) said(node, wire::AttemptPrepared{4711});
  greet(3, "h1", {}, "m1");
  const auto told = sent<wire::StandBy>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].second.agents_on_host, 2);
  EXPECT_EQ(told[0].second.agent_on_host, 1);
}

TEST_F(StartTest, ANodeWithAnUnknownMachineHasItsOwn) {
  for (const int node : {0, 1, 2}) greet(node);
  for (const auto& [node, prepare] : sent<wire::PrepareAttempt>()) EXPECT_EQ(prepare.agents_on_host, 1);
}

TEST_F(StartTest, ANodeThatJoinsAfterTheTimeoutExtendsTheWait) {
  greet(0);
  wait(100s);
  EXPECT_EQ(job.phase(), Phase::kGathering) << "one is not enough";
  greet(1);
  EXPECT_EQ(job.phase(), Phase::kGathering);
  wait(5s);
  greet(2);
  EXPECT_THAT(members(), ElementsAre("0:2@0", "1:2@2", "2:2@4"));
}

TEST_F(StartTest, TooFewAfterTenMinutesEndTheJob) {
  greet(1);
  wait(600s - 1ms);
  EXPECT_EQ(job.phase(), Phase::kGathering);
  wait(1ms);
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, kExitNodesMissing);
  EXPECT_EQ(job.verdict().cause, "1 of at least 2 nodes joined within 600 s; missing: node0 (h0)");
  EXPECT_EQ(job.restart_count(), 0);
}

class SlowStartTest : public JobOnHosts {
 protected:
  static Plan plan() {
    Plan plan = hosts_with({2, 2, 2}, 0, 2);
    plan.recovery.start_timeout = 500s;
    return plan;
  }
  SlowStartTest() : JobOnHosts(plan()) { happen(Began{}); }
};

TEST_F(SlowStartTest, StartsAfterTenMinutesEvenIfTheTimeoutHasNotPassed) {
  greet(0);
  wait(400s);
  greet(1);
  wait(200s - 1ms);
  EXPECT_EQ(job.phase(), Phase::kGathering);
  wait(1ms);
  EXPECT_THAT(members(), ElementsAre("0:2@0", "1:2@2"));
}

class PreflightTest : public JobOnHosts {
 protected:
  static Plan plan() {
    Plan plan = hosts_with({1, 1, 1, 1}, 1);
    plan.job.checkpoint_directory = "/ckpt";
    plan.job.working_directory = "/work";
    return plan;
  }
  explicit PreflightTest(const Plan& plan = PreflightTest::plan()) : JobOnHosts(plan) {
    happen(Began{});
    for (const int node : {0, 1, 2, 3}) greet(node);
    begin();
  }
};

TEST_F(PreflightTest, AllHostsThatLackSomethingAreNamedInOneLineBeforeAnyWorkerStarts) {
  said(0, wire::AttemptPrepared{4711});
  said(1, wire::AttemptRefused{.exit_code = 127, .message = "no train", .missing = "./train"});
  EXPECT_EQ(job.phase(), Phase::kPreparing);
  said(2, wire::AttemptRefused{.exit_code = 127, .message = "no train", .missing = "./train"});
  EXPECT_TRUE(sent<wire::StartWorkers>().empty());
  EXPECT_EQ(job.verdict().exit_code, 127);
  EXPECT_EQ(job.verdict().cause, "h[1-2]: no train (--sync /work copies it to all hosts)");
}

TEST_F(PreflightTest, EachHostIsNamedWithWhatItLacks) {
  said(0, wire::AttemptPrepared{4711});
  said(1, wire::AttemptRefused{.exit_code = 2, .message = "no /work", .missing = "/work"});
  said(2, wire::AttemptRefused{.exit_code = 127, .message = "no train", .missing = "train"});
  EXPECT_EQ(job.verdict().exit_code, 2);
  EXPECT_EQ(job.verdict().cause,
            "h1: no /work (--sync /work copies it to all hosts); h2: no train (install it there, "
            "or give its path)");
}

class PreflightWithoutProgram : public PreflightTest {
 protected:
  PreflightWithoutProgram()
      : PreflightTest([] {
          Plan plan = PreflightTest::plan();
          plan.program_is_here = false;
          return plan;
        }()) {}
};

TEST_F(PreflightWithoutProgram, DoesNotOfferToCopyWhatThisMachineLacks) {
  said(0, wire::AttemptPrepared{4711});
  said(1, wire::AttemptRefused{.exit_code = 2, .message = "no /work", .missing = "/work"});
  said(2, wire::AttemptRefused{.exit_code = 127, .message = "no train", .missing = "./train"});
  EXPECT_EQ(job.verdict().cause,
            "h1: no /work (--sync /work copies it to all hosts); h2: no train (it is missing here, too)");
}

TEST_F(PreflightTest, CheckpointsThatAreNotSharedAreRefused) {
  for (const auto& [node, message] : sent<wire::PrepareAttempt>()) EXPECT_TRUE(message.same_checkpoints);
  said(0, wire::AttemptPrepared{.store_port = 4711, .other_checkpoints = {}});
  for (const int node : {2, 1}) said(node, wire::AttemptPrepared{.other_checkpoints = "is not there"});
  EXPECT_EQ(job.verdict().exit_code, kExitUsage);
  EXPECT_THAT(job.verdict().cause,
              testing::StartsWith("h[1-2]: --checkpoint-dir: /ckpt is not there: give a directory"));
}

TEST_F(PreflightTest, ANodeOfALaterAttemptThatDoesNotShareThemIsLost) {
  said(0, wire::AttemptPrepared{4711});
  said(1, wire::AttemptPrepared{});
  said(2, wire::AttemptPrepared{});
  end_agent(1, "it died");
  for (const int node : {0, 2}) empty(node);
  happen(LeftoversSeen{});
  begin();
  ASSERT_THAT(members(), ElementsAre("0:1@0", "2:1@1", "3:1@2"));
  said(3, wire::AttemptPrepared{.other_checkpoints = "is not there"});
  EXPECT_EQ(decided<KillAgent>().at(0).agent.node, NodeId(3));
}

TEST_F(PreflightTest, DoesNotWaitForASilentHostAfterAnotherHasRefused) {
  wait(10s);
  EXPECT_EQ(job.phase(), Phase::kPreparing);
  said(1, wire::AttemptRefused{.exit_code = 2, .message = "no /work", .missing = {}});
  wait(1s);
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().cause, "h1: no /work");
}

TEST_F(StartTest, OneHostNeedsNoSharedCheckpoints) {
  Plan plan = hosts_with({2}, 0);
  plan.job.checkpoint_directory = "/ckpt";
  anew(plan);
  happen(Began{});
  greet(0);
  begin();
  ASSERT_EQ(sent<wire::PrepareAttempt>().size(), 1U);
  EXPECT_FALSE(sent<wire::PrepareAttempt>()[0].second.same_checkpoints);
}

TEST_F(StartTest, AHostOfASweepNeedsSharedCheckpointsEvenIfItIsAlone) {
  Plan plan = hosts_with({2}, 0);
  plan.job.checkpoint_directory = "/ckpt";
  plan.shares_checkpoints = true;
  anew(plan);
  happen(Began{});
  greet(0);
  begin();
  ASSERT_EQ(sent<wire::PrepareAttempt>().size(), 1U);
  EXPECT_TRUE(sent<wire::PrepareAttempt>()[0].second.same_checkpoints);
  said(0, wire::AttemptPrepared{.store_port = 4711, .other_checkpoints = "is not there"});
  EXPECT_EQ(job.verdict().exit_code, kExitUsage);
  EXPECT_THAT(job.verdict().cause,
              testing::EndsWith("all hosts share (--sync copies only once, which is not enough)"));
}

// A node with one worker, one with three, and a spare.
class MixedJobTest : public JobOnHosts {
 protected:
  explicit MixedJobTest(std::int32_t room = 3) : JobOnHosts(hosts_with({1, 3, room}, 1)) {
    happen(Began{});
    for (const int node : {0, 1, 2}) greet(node);
    said(0, wire::AttemptPrepared{4711});
    said(1, wire::AttemptPrepared{});
  }
  // Also ends the workers of the other node.
  void lose(int node) {
    end_agent(node, "its agent was killed by SIGKILL");
    empty(1 - node);
    happen(LeftoversSeen{});
  }
};
class MixedJobWithASmallSpare : public MixedJobTest {
 protected:
  MixedJobWithASmallSpare() : MixedJobTest(2) {}
};

TEST_F(MixedJobTest, EachNodeRunsItsOwnNumberOfWorkers) {
  EXPECT_EQ(job.phase(), Phase::kRunning);
  EXPECT_THAT(members(), ElementsAre("0:1@0", "1:3@1"));
  said(0, exited(1, 7));
  EXPECT_EQ(job.phase(), Phase::kRunning) << "rank 1 is not on node0";
  said(1, exited(3, 7));
  EXPECT_EQ(job.phase(), Phase::kStopping);
}

TEST_F(MixedJobTest, ASpareWithRoomTakesTheLostNodesPlaceAndItsNumberOfWorkers) {
  lose(1);
  EXPECT_THAT(members(), ElementsAre("0:1@0", "2:3@1"));
  const auto prepared = sent<wire::PrepareAttempt>();
  ASSERT_EQ(prepared.size(), 2U);
  EXPECT_EQ(prepared[1].second.local_world_size, 3);
  EXPECT_EQ(prepared[1].second.world_size, 4);
  EXPECT_EQ(prepared[1].second.agents_on_host, 1) << "each node has a host of its own";
  EXPECT_EQ(prepared[1].second.agent_on_host, 0);
  said(0, wire::AttemptPrepared{4711});
  said(2, wire::AttemptPrepared{});
  EXPECT_EQ(job.phase(), Phase::kRunning);
}

TEST_F(MixedJobTest, ASpareMayHaveMoreRoomThanItTakes) {
  lose(0);
  EXPECT_THAT(members(), ElementsAre("1:3@0", "2:1@3")) << "ranks follow the numbers of the nodes";
}

TEST_F(MixedJobWithASmallSpare, ASpareWithoutRoomDoesNotReplaceANode) {
  lose(1);
  EXPECT_EQ(job.phase(), Phase::kGathering);
  ASSERT_EQ(decided<StartAgent>().size(), 1U);
  EXPECT_EQ(decided<StartAgent>()[0].agent.node, NodeId(1));
  EXPECT_THAT(job.waiting_for(now), HasSubstr("node1"));
  greet(1);
  EXPECT_THAT(members(), ElementsAre("0:1@0", "1:3@1"));
}

TEST_F(MixedJobWithASmallSpare, ANodeThatNoSpareReplacesCountsAsLostBeforeItJoins) {
  lose(1);
  EXPECT_EQ(job.restart_count(), 1);
  end_agent(1, "it died again");
  EXPECT_EQ(job.phase(), Phase::kStopping);
  happen(LeftoversSeen{});
  EXPECT_EQ(job.restart_count(), 2);
}

TEST_F(MixedJobWithASmallSpare, ItTakesAPlaceThatItHasRoomFor) {
  lose(0);
  EXPECT_THAT(members(), ElementsAre("1:3@0", "2:1@3"));
}

class HostsOfNoUse : public JobOnHosts {
 protected:
  HostsOfNoUse() : JobOnHosts(hosts_with({1, 1, 1}, 0)) { happen(Began{}); }
  void lose(int node, bool refused) {
    happen(ConnectionClosed{agent(node), connection_of(agent(node))});
    happen(ProcessEnded{agent(node), fmt::format("no h{}", node),
                        refused ? AgentEnd::kRefused : AgentEnd::kOther});
  }
};

TEST_F(HostsOfNoUse, AreAllNamedAtOnceWithoutARestart) {
  greet(0);
  lose(2, true);
  EXPECT_EQ(job.phase(), Phase::kGathering) << "nothing is known about node1 yet";
  lose(1, true);
  happen(LeftoversSeen{});
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, kExitNodesMissing);
  EXPECT_EQ(job.verdict().cause, "h1: no h1; h2: no h2");
  EXPECT_EQ(job.restart_count(), 0);
}

TEST_F(HostsOfNoUse, AreWaitedForOnlyAMoment) {
  lose(2, true);
  wait(1s);
  happen(LeftoversSeen{});
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().cause, "h2: no h2");
}

TEST_F(HostsOfNoUse, AreNamedAlsoWhenAnotherHostWasLostBefore) {
  greet(0);
  lose(1, false);
  ASSERT_EQ(job.phase(), Phase::kStopping);
  lose(2, true);
  happen(LeftoversSeen{});
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().cause, "h2: no h2");
  EXPECT_EQ(job.restart_count(), 0);
}

TEST_F(HostsOfNoUse, EndTheJobAlsoAfterARestart) {
  greet(0);
  lose(1, false);
  happen(LeftoversSeen{});
  ASSERT_EQ(job.restart_count(), 1);
  lose(2, true);
  wait(1s);
  happen(LeftoversSeen{});
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, kExitNodesMissing);
  EXPECT_EQ(job.verdict().cause, "h2: no h2, after node1 (h1) could not be started: no h1");
  EXPECT_EQ(job.restart_count(), 1);
}

TEST_F(HostsOfNoUse, AreNotTriedAgainAtOnce) {
  const TimePoint start = now;
  for (int tries = 1; job.phase() != Phase::kLeaving; ++tries) {
    ASSERT_LT(tries, 9);
    EXPECT_EQ(job.restart_count(), tries - 1);
    lose(1, false);
    happen(LeftoversSeen{});
    while (job.backs_off()) {
      now += 10ms;
      happen(TimePassed{});
    }
  }
  EXPECT_GE(now - start, 23s) << "1, 2, 4, 8 and 16 s, minus at most a quarter";
}

TEST_F(HostsOfNoUse, DoNotShortenABackOff) {
  lose(1, false);
  happen(LeftoversSeen{});
  EXPECT_THAT(told(), HasSubstr("node1 (h1) could not be started: no h1; retrying in"));
  const std::int32_t before = job.restart_count();
  lose(2, false);
  EXPECT_EQ(job.phase(), Phase::kGathering);
  EXPECT_EQ(job.restart_count(), before);
  for (const TimePoint end = now + 2s; decided<StartAgent>().empty() && now < end;) {
    now += 10ms;
    happen(TimePassed{});
  }
  EXPECT_THAT(decided<StartAgent>(), testing::SizeIs(2));
}

// For example, the engine refuses the container.
class RefusedStartTest : public JobTest {
 protected:
  RefusedStartTest() : JobTest(3) {}
  void refuse(int node) {
    happen(ConnectionClosed{agent(node), connection_of(agent(node))});
    happen(ProcessEnded{agent(node), "the engine has no GPU driver", AgentEnd::kRefused});
  }
};

TEST_F(RefusedStartTest, EndsTheJobAtOnceWithoutARestart) {
  happen(Began{});
  greet(0);
  refuse(1);
  happen(LeftoversSeen{});
  EXPECT_EQ(job.phase(), Phase::kLeaving);
  EXPECT_EQ(job.verdict().exit_code, kExitInternal);
  EXPECT_EQ(job.verdict().cause, "node1: the engine has no GPU driver");
  EXPECT_EQ(job.restart_count(), 0);
}

TEST_F(RefusedStartTest, IsALossOfTheNodeOnceWorkersHaveRun) {
  run();
  end_agent(1, "its agent was killed by SIGKILL");
  worker_exits(0, 0, SIGTERM, true);
  worker_exits(1, 0, SIGTERM, true);
  empty(0);
  happen(LeftoversSeen{});
  ASSERT_EQ(job.restart_count(), 1);
  refuse(1);
  happen(LeftoversSeen{});
  ASSERT_NE(job.phase(), Phase::kLeaving);
  pass(2s);
  greet(1);
  begin();
  start_workers();
  for (int rank = 0; rank < 4; ++rank) worker_exits(rank, 0);
  empty_all();
  agents_leave();
  EXPECT_EQ(job.verdict().exit_code, 0);
}

}  // namespace
}  // namespace muster::launcher
