#include "launcher/core/fleet/fleet.h"

#include <algorithm>
#include <cerrno>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::launcher {
namespace {

using namespace std::chrono_literals;
using Presence = Fleet::Presence;

constexpr NodeId kNode(7);
constexpr ConnectionId kFirst(1);
constexpr ConnectionId kSecond(2);

class FleetTest : public testing::Test {
 protected:
  FleetTest() {
    fleet.add(kNode);
    fleet.add(NodeId(100'000));
  }
  template <class Event>
  void happen(const Event& event) {
    last = fleet.on(event, now);
  }
  AgentId hire(NodeId node = kNode) {
    last = {fleet.hire(node, now, "it is wanted"), {}};
    return decided<StartAgent>().at(0).agent;
  }
  void greet(AgentId agent, const std::string& version = "1.2.3") {
    wire::Hello hello;
    hello.node = agent.node;
    hello.incarnation = agent.incarnation;
    hello.version = version;
    happen(AgentSaid{agent, Attempt(), hello});
  }
  // It has connected with kFirst, and sent Hello.
  AgentId join(NodeId node = kNode) {
    const AgentId agent = hire(node);
    happen(AgentConnected{agent, kFirst});
    greet(agent);
    return agent;
  }
  void hear(AgentId agent) { happen(AgentSaid{agent, Attempt(), wire::Pong{}}); }
  // Runs until the next deadline, which must be within `limit`.
  void wake(Duration limit) {
    ASSERT_TRUE(fleet.next_deadline());
    ASSERT_LE(*fleet.next_deadline(), now + limit);
    now = std::max(now, *fleet.next_deadline());
    last = fleet.on_time(now, false);
  }
  void lose_both_halves(AgentId agent) {
    happen(ProcessEnded{agent, "its agent was killed by SIGKILL"});
    happen(ConnectionClosed{agent, kFirst});
  }
  template <class Action>
  std::vector<Action> decided() const {
    std::vector<Action> found;
    for (const FleetDecision& each : last.decisions) {
      if (const auto* action = std::get_if<Action>(&each.action)) found.push_back(*action);
    }
    return found;
  }
  template <class News>
  std::vector<News> told() const {
    std::vector<News> found;
    for (const FleetNews& each : last.news) {
      if (const auto* news = std::get_if<News>(&each)) found.push_back(*news);
    }
    return found;
  }

  Fleet fleet{{.silence = 5s, .version = "1.2.3", .exclusion = {.window = 1h, .exclusion = 10min}}};
  TimePoint now{1000s};
  Fleet::Outcome last;
};

// An agent on another host may have to be delivered first.
TEST(FleetOfHosts, WaitsForAnAgentUntilItsBootstrapGivesUpAndWatchesSilenceFromItsConnection) {
  Fleet fleet({.silence = 10s, .starts_are_watched = true, .version = "1.2.3"});
  fleet.add(kNode);
  const TimePoint start{100s};
  const FleetDecisions hired = fleet.hire(kNode, start, "it is wanted");
  const AgentId agent = std::get<StartAgent>(hired.at(0).action).agent;
  EXPECT_FALSE(fleet.next_deadline());
  (void)fleet.on(AgentConnected{agent, kFirst}, start + 60s);
  EXPECT_EQ(fleet.next_deadline(), start + 70s);
  const Fleet::Outcome silent = fleet.on_time(start + 70s, false);
  ASSERT_EQ(silent.news.size(), 1U);
  EXPECT_EQ(std::get<NodeLost>(silent.news[0]).how, "its agent did not appear for 10 s");
  EXPECT_FALSE(fleet.next_deadline() && *fleet.next_deadline() < start + 70s);
  (void)fleet.hire(kNode, start + 71s, "it is wanted");
  const Fleet::Outcome ended =
      fleet.on(ProcessEnded{{kNode, Incarnation(2)}, "no answer within 10 s"}, start + 81s);
  ASSERT_EQ(ended.news.size(), 1U);
  EXPECT_EQ(std::get<NodeLost>(ended.news[0]).how, "no answer within 10 s");
}

TEST(FleetOfHosts, AnAgentThatConnectsAgainBeforeItsGreetingIsLostOnceWhenItFallsSilent) {
  Fleet fleet({.silence = 10s, .starts_are_watched = true, .version = "1.2.3"});
  fleet.add(kNode);
  const TimePoint start{100s};
  const AgentId agent = std::get<StartAgent>(fleet.hire(kNode, start, "it is wanted").at(0).action).agent;
  (void)fleet.on(AgentConnected{agent, kFirst}, start);
  (void)fleet.on(ConnectionClosed{agent, kFirst}, start + 500ms);
  (void)fleet.on(AgentConnected{agent, kSecond}, start + 600ms);
  const Fleet::Outcome silent = fleet.on_time(start + 11s, false);
  EXPECT_EQ(silent.news.size(), 1U);
  EXPECT_TRUE(fleet.on_time(start + 60s, false).news.empty());
}

TEST(FleetOfHosts, WatchesTheSilenceOfAnAgentThatSpeaksWithoutAConnection) {
  Fleet fleet({.silence = 10s, .starts_are_watched = true, .version = "1.2.3"});
  fleet.add(kNode);
  const AgentId agent =
      std::get<StartAgent>(fleet.hire(kNode, TimePoint(100s), "it is wanted").at(0).action).agent;
  (void)fleet.on(AgentSaid{agent, Attempt(), wire::Pong{}}, TimePoint(101s));
  EXPECT_EQ(fleet.next_deadline(), TimePoint(111s));
}

TEST_F(FleetTest, ANodeJoinsWhenItsAgentHasConnectedAndGreeted) {
  const AgentId agent = hire();
  EXPECT_EQ(agent, (AgentId{kNode, Incarnation(1)}));
  EXPECT_EQ(fleet.presence(kNode), Presence::kComing);
  happen(AgentConnected{agent, kFirst});
  ASSERT_EQ(decided<AcceptConnection>().size(), 1U);
  EXPECT_TRUE(told<NodeJoined>().empty());
  greet(agent);
  ASSERT_EQ(told<NodeJoined>().size(), 1U);
  EXPECT_EQ(fleet.presence(kNode), Presence::kThere);
  EXPECT_EQ(fleet.there_count(), 1U);
  greet(agent);
  EXPECT_TRUE(told<NodeJoined>().empty()) << "once";
}

TEST_F(FleetTest, AnAgentOfAnotherVersionIsKilledAndLostForThat) {
  const AgentId agent = hire();
  happen(AgentConnected{agent, kFirst});
  greet(agent, "1.2.2");
  EXPECT_EQ(decided<KillAgent>().size(), 1U);
  EXPECT_TRUE(told<NodeJoined>().empty());
  lose_both_halves(agent);
  ASSERT_EQ(told<NodeLost>().size(), 1U);
  EXPECT_THAT(told<NodeLost>()[0].how, testing::StartsWith("its agent cannot be used: the agent is older"));
}

TEST_F(FleetTest, ALateConnectionOfAnAgentThatWasReplacedIsClosed) {
  const AgentId old = hire();
  fleet.drop(kNode, now, "it is late", now);
  const AgentId young = hire();
  EXPECT_EQ(young.incarnation, Incarnation(2));
  happen(AgentConnected{old, kFirst});
  ASSERT_EQ(decided<CloseConnection>().size(), 1U);
  EXPECT_EQ(decided<CloseConnection>()[0].connection, kFirst);
  happen(AgentConnected{young, kSecond});
  EXPECT_EQ(decided<AcceptConnection>().size(), 1U);
  EXPECT_EQ(fleet.connection_of(kNode), kSecond);
}

TEST_F(FleetTest, ASecondConnectionOfAnAgentIsClosed) {
  const AgentId agent = join();
  happen(AgentConnected{agent, kSecond});
  ASSERT_EQ(decided<CloseConnection>().size(), 1U);
  EXPECT_EQ(decided<CloseConnection>()[0].connection, kSecond);
  EXPECT_EQ(fleet.connection_of(kNode), kFirst);
}

TEST_F(FleetTest, IgnoresOlderIncarnations) {
  const AgentId old = join();
  fleet.drop(kNode, now, "it is late", now);
  const AgentId young = join();
  EXPECT_FALSE(fleet.listens_to(old));
  EXPECT_TRUE(fleet.listens_to(young));
  lose_both_halves(old);
  EXPECT_TRUE(told<NodeLost>().empty());
  EXPECT_EQ(fleet.presence(kNode), Presence::kThere);
}

TEST_F(FleetTest, AnAgentWhoseProcessAndConnectionHaveEndedIsLostAtOnceInEitherOrder) {
  for (const bool process_first : {true, false}) {
    const AgentId agent = join();
    const ProcessEnded ended{agent, "its agent was killed by SIGKILL"};
    const ConnectionClosed closed{agent, kFirst};
    if (process_first) happen(ended);
    happen(closed);
    if (!process_first) happen(ended);
    ASSERT_EQ(told<NodeLost>().size(), 1U);
    EXPECT_EQ(told<NodeLost>()[0].how, "its agent was killed by SIGKILL");
    EXPECT_FALSE(fleet.alive(kNode));
    EXPECT_TRUE(decided<KillAgent>().empty());
  }
}

TEST_F(FleetTest, AnAgentThatCannotBeStartedIsLost) {
  const AgentId agent = hire();
  happen(ProcessEnded{agent, "cannot start /agent: No such file or directory"});
  ASSERT_EQ(told<NodeLost>().size(), 1U);
  EXPECT_EQ(told<NodeLost>()[0].how, "cannot start /agent: No such file or directory");
}

TEST_F(FleetTest, ANodeIsLostAsRefusedOnlyIfItsAgentCouldNotBeStartedForThat) {
  happen(ProcessEnded{hire(), "the engine has no GPU driver", AgentEnd::kRefused});
  EXPECT_EQ(told<NodeLost>().at(0).end, AgentEnd::kRefused);
  happen(ProcessEnded{hire(), "no answer within 10 s"});
  EXPECT_EQ(told<NodeLost>().at(0).end, AgentEnd::kOther);
  const AgentId agent = join();
  lose_both_halves(agent);
  EXPECT_EQ(told<NodeLost>().at(0).end, AgentEnd::kOther);
}

TEST_F(FleetTest, RefusesAnAgentOfAnotherVersionForGood) {
  const AgentId other = hire();
  happen(AgentConnected{other, kFirst});
  greet(other, "1.2.2");
  lose_both_halves(other);
  ASSERT_EQ(told<NodeLost>().size(), 1U);
  EXPECT_EQ(told<NodeLost>()[0].how,
            "its agent cannot be used: the agent is older than this launcher (Muster 1.2.2, not 1.2.3): "
            "install the same Muster on all nodes");
  EXPECT_EQ(told<NodeLost>()[0].end, AgentEnd::kRefused);
  for (const bool greets : {false, true}) {
    const AgentId agent = greets ? join() : hire();
    if (!greets) happen(AgentConnected{agent, kFirst});
    happen(ConnectionClosed{agent, kFirst, "the agent is older"});
    happen(ProcessEnded{agent, "its agent was killed by SIGKILL"});
    ASSERT_EQ(told<NodeLost>().size(), 1U);
    EXPECT_EQ(told<NodeLost>()[0].how, "its agent sent an unreadable frame: the agent is older");
    EXPECT_EQ(told<NodeLost>()[0].end, greets ? AgentEnd::kOther : AgentEnd::kRefused);
  }
}

TEST_F(FleetTest, ReportsAnAgentOutOfMemoryWhicheverOfItsEndsIsSeenFirst) {
  for (const bool process_first : {true, false}) {
    const AgentId agent = join();
    const ProcessEnded ended{agent, "container ended with 137", AgentEnd::kOutOfMemory};
    if (process_first) happen(ended);
    happen(ConnectionClosed{agent, kFirst});
    if (!process_first) happen(ended);
    ASSERT_EQ(told<NodeLost>().size(), 1U);
    EXPECT_EQ(told<NodeLost>()[0].end, AgentEnd::kOutOfMemory);
  }
}

TEST_F(FleetTest, ReportsAnAgentOutOfMemoryAlsoIfItsEndIsSeenLate) {
  const AgentId agent = join();
  happen(ConnectionClosed{agent, kFirst});
  wake(1s);
  ASSERT_EQ(decided<KillAgent>().size(), 1U);
  happen(ProcessEnded{agent, "container ended with 137", AgentEnd::kOutOfMemory});
  ASSERT_EQ(told<NodeLost>().size(), 1U);
  EXPECT_EQ(told<NodeLost>()[0].end, AgentEnd::kOutOfMemory);
  EXPECT_EQ(told<NodeLost>()[0].how, "container ended with 137");
}

TEST_F(FleetTest, AnAgentThatClosesItsConnectionAndLivesIsKilledAfterASecond) {
  const AgentId agent = join();
  happen(ConnectionClosed{agent, kFirst});
  EXPECT_TRUE(decided<KillAgent>().empty()) << "the process's end may arrive soon";
  EXPECT_EQ(fleet.next_deadline(), now + 1s);
  const TimePoint closed = now;
  wake(1s);
  ASSERT_EQ(decided<KillAgent>().size(), 1U);
  EXPECT_TRUE(told<NodeLost>().empty()) << "it has not ended yet";
  happen(ProcessEnded{agent, "its agent was killed by SIGKILL"});
  ASSERT_EQ(told<NodeLost>().size(), 1U);
  EXPECT_EQ(told<NodeLost>()[0].how, "its agent closed its connection") << "not our own kill";
  EXPECT_EQ(told<NodeLost>()[0].at, closed)
      << "otherwise a failure elsewhere in the meantime would be blamed";
}

TEST_F(FleetTest, AnEndedAgentWhoseConnectionStaysOpenIsLostAfterASecond) {
  const AgentId agent = join();
  happen(ProcessEnded{agent, "its agent exited with code 1"});
  EXPECT_TRUE(told<NodeLost>().empty()) << "its last messages may not have been read yet";
  hear(agent);
  wake(1s);
  ASSERT_EQ(told<NodeLost>().size(), 1U);
  EXPECT_EQ(told<NodeLost>()[0].how, "its agent exited with code 1");
  EXPECT_EQ(decided<CloseConnection>().size(), 1U);
}

TEST_F(FleetTest, KillsAnAgentThatSendsAnUnreadableFrame) {
  const AgentId agent = join();
  happen(ConnectionClosed{agent, kFirst, "a frame of 4 GiB"});
  EXPECT_EQ(decided<KillAgent>().size(), 1U);
  happen(ProcessEnded{agent, "its agent was killed by SIGKILL"});
  EXPECT_EQ(told<NodeLost>().at(0).how, "its agent sent an unreadable frame: a frame of 4 GiB");
}

TEST_F(FleetTest, ASilentAgentIsKilledAndLostSinceItWasLastHeard) {
  const AgentId agent = join();
  const TimePoint heard = now += 2s;
  hear(agent);
  EXPECT_EQ(fleet.next_deadline(), heard + 5s);
  wake(5s);
  EXPECT_EQ(decided<KillAgent>().size(), 1U);
  EXPECT_EQ(decided<CloseConnection>().size(), 1U);
  ASSERT_EQ(told<NodeLost>().size(), 1U);
  EXPECT_EQ(told<NodeLost>()[0].at, heard);
  EXPECT_EQ(told<NodeLost>()[0].how, "its agent was silent for 5 s");
}

TEST_F(FleetTest, AnAgentThatDoesNotAppearIsKilled) {
  hire();
  wake(5s);
  EXPECT_EQ(told<NodeLost>().at(0).how, "its agent did not appear for 5 s");
}

TEST_F(FleetTest, TheNextSilenceIsThatOfTheLongestSilentAgent) {
  const AgentId one = join(NodeId(7));
  const AgentId other = hire(NodeId(100'000));
  now += 1s;
  hear(one);
  EXPECT_EQ(fleet.next_deadline(), now + 4s);
  hear(other);
  EXPECT_EQ(fleet.next_deadline(), now + 5s);
}

TEST_F(FleetTest, ForgivesSilenceWhileTheLauncherSlept) {
  join();
  now += 1min;
  last = fleet.on_time(now, /*noticed_late=*/true);
  EXPECT_TRUE(told<NodeLost>().empty());
  EXPECT_EQ(fleet.next_deadline(), now + 5s);
}

TEST_F(FleetTest, DoesNotCountTheLaunchersSleepAsSilence) {
  join();
  now += 4s;
  fleet.slept(3s);
  EXPECT_EQ(fleet.next_deadline(), now + 4s);
  wake(4s);
  EXPECT_EQ(told<NodeLost>().size(), 1U) << "the rest of the silence counts";
}

TEST_F(FleetTest, LeftoversAreLookedForUntilTheyAreGone) {
  lose_both_halves(join());
  wake(0s);
  ASSERT_EQ(decided<LookForLeftovers>().size(), 1U);
  EXPECT_FALSE(decided<LookForLeftovers>()[0].kill);
  happen(LeftoversSeen{{{.pid = 12}}, false});
  wake(Fleet::kCheckPeriod);
  EXPECT_EQ(decided<LookForLeftovers>().size(), 1U);
  happen(LeftoversSeen{});
  EXPECT_EQ(told<LeftoversGone>().size(), 1U);
  EXPECT_EQ(fleet.next_deadline(), std::nullopt);
  happen(LeftoversSeen{});
  EXPECT_TRUE(told<LeftoversGone>().empty()) << "the fleet no longer waits for them";
}

TEST_F(FleetTest, LeftoversAreKilledAfterTwoSecondsAndNamedAfterThree) {
  lose_both_halves(join());
  const TimePoint lost = now;
  TimePoint killed;
  int named_count = 0;
  while (now < lost + 10s) {
    wake(1s);
    ASSERT_EQ(decided<LookForLeftovers>().size(), 1U);
    const bool kill = decided<LookForLeftovers>()[0].kill;
    if (kill && killed == TimePoint()) killed = now;
    happen(LeftoversSeen{{{.pid = 12, .name = "sudo", .uid = 0, .error = EPERM}}, kill});
    if (told<LeftoversRemain>().empty()) continue;
    ++named_count;
    EXPECT_GT(now, lost + 3s);
    EXPECT_LE(now, lost + 3s + Fleet::kCheckPeriod);
    EXPECT_EQ(told<LeftoversRemain>()[0].left.at(0).pid, 12);
  }
  EXPECT_GT(killed, lost + 2s);
  EXPECT_LE(killed, lost + 2s + Fleet::kCheckPeriod);
  EXPECT_EQ(named_count, 1);
}

TEST_F(FleetTest, DoesNotWaitForProcessesThatAnAgentHasReported) {
  const AgentId agent = join();
  happen(AgentSaid{agent, Attempt(1), wire::LeftoversUnkillable{{{.pid = 12}}}});
  lose_both_halves(agent);
  wake(0s);
  happen(LeftoversSeen{{{.pid = 12}}, false});
  EXPECT_EQ(told<LeftoversGone>().size(), 1U);
}

TEST_F(FleetTest, ReportsProcessesLeftBehindOnceAndDoesNotWaitForThemLater) {
  const auto see = [this](std::vector<std::int32_t> pids) {
    LeftoversSeen seen{.killed = true};
    for (const std::int32_t pid : pids) seen.left.push_back({.pid = pid});
    happen(seen);
  };
  lose_both_halves(join());
  now += 4s;
  see({12});
  ASSERT_EQ(told<LeftoversRemain>().size(), 1U);
  lose_both_halves(join());
  now += 4s;
  see({12, 13});
  ASSERT_EQ(told<LeftoversRemain>().size(), 1U) << "the fleet still waits for it";
  ASSERT_EQ(told<LeftoversRemain>()[0].left.size(), 1U);
  EXPECT_EQ(told<LeftoversRemain>()[0].left[0].pid, 13);
  fleet.leave_leftovers_behind();
  lose_both_halves(join());
  see({12, 13});
  EXPECT_EQ(told<LeftoversGone>().size(), 1U) << "at once";
  lose_both_halves(join());
  see({13});
  EXPECT_EQ(told<LeftoversGone>().size(), 1U);
  lose_both_halves(join());
  see({12, 13});
  EXPECT_TRUE(told<LeftoversGone>().empty()) << "12 had ended: that is another process";
}

TEST_F(FleetTest, AProcessOfAnotherHostWithThePidOfANamedOneIsALeftover) {
  const NodeId other(100'000);
  const AgentId agent = join();
  happen(AgentSaid{agent, Attempt(1), wire::LeftoversUnkillable{{{.pid = 12}}}});
  lose_both_halves(agent);
  happen(LeftoversSeen{{{.pid = 12, .node = kNode}, {.pid = 12, .node = other}}, false});
  EXPECT_TRUE(told<LeftoversGone>().empty());
  now += 4s;
  happen(LeftoversSeen{{{.pid = 12, .node = kNode}, {.pid = 12, .node = other}}, true});
  ASSERT_EQ(told<LeftoversRemain>().size(), 1U);
  ASSERT_EQ(told<LeftoversRemain>()[0].left.size(), 1U);
  EXPECT_EQ(told<LeftoversRemain>()[0].left[0].node, other);
  fleet.leave_leftovers_behind();
  lose_both_halves(join());
  happen(LeftoversSeen{{{.pid = 12, .node = other}}, false});
  EXPECT_EQ(told<LeftoversGone>().size(), 1U) << "it was left behind";
  lose_both_halves(join());
  happen(LeftoversSeen{{{.pid = 12, .node = kNode}}, false});
  EXPECT_TRUE(told<LeftoversGone>().empty()) << "that one had ended";
}

TEST_F(FleetTest, AHeldReportIsASignOfLifeAtItsArrival) {
  const AgentId one = join(NodeId(7));
  const AgentId other = hire(NodeId(100'000));
  const TimePoint start = now;
  now += 1s;
  hear(other);
  AgentSaid held{one, Attempt(1), wire::WorkerReported{}};
  held.heard_at = start + 500ms;
  happen(held);
  EXPECT_EQ(fleet.next_deadline(), start + 5500ms);
  wake(5s);
  ASSERT_EQ(told<NodeLost>().size(), 1U);
  EXPECT_EQ(told<NodeLost>()[0].node, one.node);
  EXPECT_EQ(told<NodeLost>()[0].at, start + 500ms);
}

TEST_F(FleetTest, WaitsForADroppedAgentAsForALeftover) {
  const AgentId agent = join();
  last = {fleet.drop(kNode, now, "it is late", now), {}};
  EXPECT_EQ(decided<KillAgent>().size(), 1U);
  EXPECT_EQ(decided<CloseConnection>().size(), 1U);
  EXPECT_FALSE(fleet.alive(kNode));
  EXPECT_EQ(fleet.next_deadline(), now + Fleet::kCheckPeriod);
  happen(ProcessEnded{agent, "its agent was killed by SIGKILL"});
  EXPECT_EQ(fleet.next_deadline(), now) << "the fleet looks again at once";
}

TEST_F(FleetTest, ANodeThatWasLostTwiceIsExcludedForAWhile) {
  for (int loss = 0; loss < 2; ++loss) {
    EXPECT_FALSE(fleet.excluded(kNode, now));
    lose_both_halves(join());
  }
  EXPECT_TRUE(fleet.excluded(kNode, now));
  EXPECT_THAT(fleet.excluded(now), testing::ElementsAre(kNode));
  EXPECT_FALSE(fleet.excluded(kNode, now + 10min));
}

TEST_F(FleetTest, ANodeIsNotExcludedBecauseItsAgentCannotBeStarted) {
  lose_both_halves(join());
  EXPECT_TRUE(told<NodeLost>().at(0).had_joined);
  for (int start = 0; start < 3; ++start) {
    happen(ProcessEnded{hire(), "no route to host"});
    EXPECT_FALSE(told<NodeLost>().at(0).had_joined);
  }
  happen(LeftoversSeen{});
  hire();
  wake(5s);
  EXPECT_FALSE(told<NodeLost>().at(0).had_joined) << "it did not appear";
  happen(LeftoversSeen{});
  EXPECT_FALSE(fleet.excluded(kNode, now));
  join();
  wake(5s);
  EXPECT_TRUE(told<NodeLost>().at(0).had_joined) << "it fell silent";
  EXPECT_TRUE(fleet.excluded(kNode, now));
}

TEST_F(FleetTest, EndsDoNotCountAsLossesAfterTheRelease) {
  join();
  fleet.release();
  lose_both_halves({kNode, Incarnation(1)});
  EXPECT_EQ(told<NodeLost>().size(), 1U);
  lose_both_halves(join());
  EXPECT_FALSE(fleet.excluded(kNode, now));
}

TEST_F(FleetTest, LeftoversOfReleasedAgentsAreLookedForWhenTheLastHasEnded) {
  const AgentId one = join(NodeId(7));
  const AgentId other = hire(NodeId(100'000));
  fleet.release();
  lose_both_halves(one);
  wake(0s);
  EXPECT_TRUE(decided<LookForLeftovers>().empty()) << "another agent is alive";
  happen(ProcessEnded{other, "its agent exited with code 0"});
  wake(0s);
  EXPECT_EQ(decided<LookForLeftovers>().size(), 1U);
}

TEST_F(FleetTest, TenThousandAgentsTakeTimeOnlyForTheirEvents) {
  std::vector<AgentId> agents;
  for (std::int32_t node = 0; node < 10'000; ++node) {
    fleet.add(NodeId(node));
    agents.push_back(join(NodeId(node)));
  }
  EXPECT_EQ(fleet.there_count(), 10'000U);
  for (int second = 0; second < 20; ++second) {
    now += 1s;
    for (const AgentId agent : agents) hear(agent);
    last = fleet.on_time(now, false);
    EXPECT_TRUE(last.news.empty());
  }
}

}  // namespace
}  // namespace muster::launcher
