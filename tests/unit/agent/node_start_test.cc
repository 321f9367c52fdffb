// The start of an attempt waits for the template, for GPU memory, and for the store.
#include <gmock/gmock.h>

#include "tests/unit/agent/node_fixture.h"

namespace muster::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(NodeTest, LoadsTheTemplateWhileItStandsBy) {
  on(StandByRequested{{3}});
  EXPECT_THAT(decided_, IsEmpty()) << "it knows no job yet";
  on(Welcomed{job()});
  on(StandByRequested{{3, 2, 1}});
  const auto loads = decided<LoadTemplate>();
  ASSERT_EQ(loads.size(), 1U);
  EXPECT_EQ(loads[0].likely.local_world_size, 3);
  EXPECT_EQ(loads[0].likely.agents_on_host, 2);
  EXPECT_EQ(loads[0].likely.agent_on_host, 1);
  on(TemplateSettled{});
  on(AttemptRequested{Attempt(2), plan(3)});
  on(AttemptOpened{.store_port = 1});
  on(StandByRequested{{3}});
  EXPECT_THAT(decided_, IsEmpty()) << "it takes part in an attempt by now";
}

TEST_F(NodeTest, GivesUpATemplateThatLoadsTooLongWhileItStandsBy) {
  on(Welcomed{job()});
  on(StandByRequested{{3}});
  for (int second = 0; second < 59; ++second) {
    on(LauncherHeard{});
    advance(1s);
    EXPECT_THAT(decided<GiveUpTemplate>(), IsEmpty());
  }
  on(LauncherHeard{});
  advance(1s);
  EXPECT_EQ(decided<GiveUpTemplate>().size(), 1U);
}

TEST_F(NodeTest, DelaysTheStartUntilTheTemplateIsReady) {
  on(Welcomed{job()});
  on(AttemptRequested{Attempt(1), plan(2)});
  on(AttemptOpened{.store_port = 1, .template_loads = true});
  EXPECT_EQ(sent<wire::AttemptPrepared>().size(), 1U);
  on(StartRequested{Attempt(1), {}});
  EXPECT_THAT(decided_, IsEmpty());
  on(TemplateSettled{});
  EXPECT_EQ(decided<StartWorker>().size(), 1U);
  on(WorkerStarted{LocalRank(0), 100, true});
  on(WorkerStarted{LocalRank(1), 101, false, "the template was killed"});
  ASSERT_EQ(sent<wire::WorkersStarted>().size(), 1U);
  EXPECT_EQ(sent<wire::WorkersStarted>()[0].warm_count, 1);
  EXPECT_EQ(sent<wire::WorkersStarted>()[0].executed_because, "the template was killed");
}

TEST_F(NodeTest, ATemplateThatSettlesBeforeTheStartDelaysNothing) {
  on(Welcomed{job()});
  on(AttemptRequested{Attempt(1), plan(1)});
  on(AttemptOpened{.store_port = 1, .template_loads = true});
  on(TemplateSettled{});
  on(StartRequested{Attempt(1), {}});
  EXPECT_EQ(decided<StartWorker>().size(), 1U);
}

TEST_F(NodeTest, ATemplateThatIsNotReadyInTimeIsGivenUpAndTheRanksAreStartedWithoutIt) {
  on(Welcomed{job()});
  on(AttemptRequested{Attempt(1), plan(1)});
  on(AttemptOpened{.store_port = 1, .template_loads = true});
  advance(1s);
  on(StartRequested{Attempt(1), {}});
  for (auto left = Node::kTemplateLimit - 1s; left > 1s; left -= 1s) {
    on(LauncherHeard{});
    advance(1s);
    EXPECT_THAT(decided_, IsEmpty());
  }
  advance(1s);
  ASSERT_EQ(decided<GiveUpTemplate>().size(), 1U);
  EXPECT_THAT(decided<GiveUpTemplate>()[0].reason, testing::HasSubstr("60 s"));
  EXPECT_EQ(decided<StartWorker>().size(), 1U);
  on(TemplateSettled{});
  EXPECT_THAT(decided_, IsEmpty());
}

TEST_F(NodeTest, AStartThatWaitsForATemplateCanBeStopped) {
  on(Welcomed{job()});
  on(AttemptRequested{Attempt(1), plan(1)});
  on(AttemptOpened{.store_port = 1, .template_loads = true});
  on(StartRequested{Attempt(1), {}});
  on(stop(1, 1s));
  EXPECT_EQ(decided<CloseAttempt>().size(), 1U);
  EXPECT_EQ(sent<wire::WorkersGone>().size(), 1U);
  on(TemplateSettled{});
  EXPECT_THAT(decided_, IsEmpty());
}

TEST_F(NodeTest, DelaysTheStartUntilGpuMemoryOfKilledWorkersIsFreeAndSaysSo) {
  on(Welcomed{job()});
  on(AttemptRequested{Attempt(2), plan(1)});
  on(AttemptOpened{.store_port = 1, .gpus_may_be_full = true});
  EXPECT_EQ(sent<wire::AttemptPrepared>().size(), 1U);
  EXPECT_EQ(decided<LookAtGpus>().size(), 1U);
  on(StartRequested{Attempt(2), {}});
  EXPECT_THAT(decided<StartWorker>(), IsEmpty());
  on(GpusLookedAt{"3.0 GiB of GPU 1"});
  ASSERT_EQ(sent<wire::AgentRemark>().size(), 1U);
  advance(20ms);
  EXPECT_EQ(decided<LookAtGpus>().size(), 1U);
  on(GpusLookedAt{"2.0 GiB of GPU 1"});
  EXPECT_THAT(decided_, IsEmpty()) << "it is reported once";
  advance(20ms);
  on(GpusLookedAt{""});
  EXPECT_EQ(sent<wire::AgentRemark>().size(), 1U);
  EXPECT_EQ(decided<StartWorker>().size(), 1U);
}

TEST_F(NodeTest, SaysNothingAboutGpuMemoryThatIsFreeAtOnce) {
  on(Welcomed{job()});
  on(AttemptRequested{Attempt(2), plan(1)});
  on(AttemptOpened{.store_port = 1, .gpus_may_be_full = true});
  on(GpusLookedAt{""});
  EXPECT_THAT(decided_, IsEmpty());
  on(StartRequested{Attempt(2), {}});
  EXPECT_EQ(decided<StartWorker>().size(), 1U);
}

TEST_F(NodeTest, WaitsNoLongerThanFiftySecondsForGpuMemory) {
  on(Welcomed{job()});
  on(AttemptRequested{Attempt(2), plan(1)});
  on(AttemptOpened{.store_port = 1, .gpus_may_be_full = true});
  on(StartRequested{Attempt(2), {}});
  on(GpusLookedAt{"3.0 GiB of GPU 1"});
  for (Duration waited{}; waited < 50s - 20ms; waited += 20ms) {
    on(LauncherHeard{});
    advance(20ms);
    ASSERT_THAT(decided<StartWorker>(), IsEmpty());
  }
  advance(20ms);
  ASSERT_EQ(sent<wire::AgentRemark>().size(), 1U);
  EXPECT_THAT(sent<wire::AgentRemark>()[0].text, testing::HasSubstr("3.0 GiB of GPU 1"));
  EXPECT_EQ(decided<StartWorker>().size(), 1U);
}

TEST_F(NodeTest, AStartThatWaitsForGpuMemoryCanBeStopped) {
  on(Welcomed{job()});
  on(AttemptRequested{Attempt(2), plan(1)});
  on(AttemptOpened{.store_port = 1, .gpus_may_be_full = true});
  on(StartRequested{Attempt(2), {}});
  on(stop(2, 1s));
  EXPECT_EQ(sent<wire::WorkersGone>().size(), 1U);
  on(GpusLookedAt{""});
  EXPECT_THAT(decided_, IsEmpty());
}

TEST_F(NodeTest, LeavesAlthoughATemplateStillLoads) {
  on(Welcomed{job()});
  on(AttemptRequested{Attempt(1), plan(1)});
  on(AttemptOpened{.store_port = 1, .template_loads = true});
  on(StartRequested{Attempt(1), {}});
  on(LeaveRequested{"the job is over"});
  EXPECT_EQ(decided<Quit>().size(), 1U);
}

// With a store on another host.
class NodeAndStore : public NodeTest {
 protected:
  void order_start() {
    on(Welcomed{job()});
    on(AttemptRequested{Attempt(1), plan(1)});
    on(AttemptOpened{});
    on(StartRequested{Attempt(1), {"10.77.0.10", 4711, {}}});
  }
};

TEST_F(NodeAndStore, WorkersAreStartedWhenTheStoreHasAnswered) {
  order_start();
  ASSERT_EQ(decided<ReachStore>().size(), 1U);
  EXPECT_EQ(decided<ReachStore>()[0].start.master_address, "10.77.0.10");
  EXPECT_THAT(decided<StartWorker>(), IsEmpty());
  on(StoreAnswered{});
  EXPECT_EQ(decided<StartWorker>().size(), 1U);
  advance(Node::kReachLimit);
  EXPECT_THAT(sent<wire::AttemptRefused>(), IsEmpty());
}

TEST_F(NodeAndStore, AStoreThatCannotBeReachedRefusesTheAttempt) {
  order_start();
  on(StoreAnswered{"Network is unreachable"});
  EXPECT_THAT(decided<StartWorker>(), IsEmpty());
  EXPECT_EQ(decided<CloseAttempt>().size(), 1U);
  ASSERT_EQ(sent<wire::AttemptRefused>().size(), 1U);
  EXPECT_TRUE(sent<wire::AttemptRefused>()[0].unreachable);
  EXPECT_FALSE(sent<wire::AttemptRefused>()[0].no_answer);
  EXPECT_EQ(sent<wire::AttemptRefused>()[0].message,
            "the store at 10.77.0.10 port 4711 cannot be reached: Network is unreachable");
  on(stop(1, 3s));
  EXPECT_EQ(sent<wire::WorkersGone>().size(), 1U);
}

TEST_F(NodeAndStore, AStoreHasFiveSecondsForItsAnswer) {
  order_start();
  advance(Node::kReachLimit - 1ms);
  EXPECT_THAT(sent<wire::AttemptRefused>(), IsEmpty());
  advance(1ms);
  ASSERT_EQ(sent<wire::AttemptRefused>().size(), 1U);
  EXPECT_THAT(sent<wire::AttemptRefused>()[0].message, testing::HasSubstr("no answer within 5 s"));
  EXPECT_TRUE(sent<wire::AttemptRefused>()[0].no_answer)
      << "the network of the store's host may be the cause";
  on(StoreAnswered{});
  EXPECT_THAT(decided<StartWorker>(), IsEmpty()) << "the attempt is over here";
}

TEST_F(NodeAndStore, AStoreHasFiveSecondsMoreIfTheAgentWasStopped) {
  order_start();
  now_ += 1min;
  on(TimePassed{.late = 1min - Node::kReachLimit});
  EXPECT_THAT(sent<wire::AttemptRefused>(), IsEmpty());
  advance(Node::kReachLimit);
  EXPECT_EQ(sent<wire::AttemptRefused>().size(), 1U);
}

TEST_F(NodeAndStore, AStopBeforeTheAnswerEndsTheAttempt) {
  order_start();
  on(stop(1, 3s));
  EXPECT_EQ(sent<wire::WorkersGone>().size(), 1U);
  on(StoreAnswered{});
  EXPECT_THAT(decided<StartWorker>(), IsEmpty());
}

}  // namespace
}  // namespace muster::agent
